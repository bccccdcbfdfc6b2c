// The run-time compiler: writes the source aside, lets the compiler that built the tests make a shared object of it, and gives that as the CUBIN. The words of kernels are
// declared by tests/cuda/include/emulated_kernel.h and, as with NVRTC, no header of the C library is.
#include <nvrtc.h>

#include <ctype.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/emulation/calls.h"

// Set by tests/cuda/targets.cmake.
#ifndef DELTA_EMULATED_COMPILER
#error "DELTA_EMULATED_COMPILER, DELTA_EMULATED_FLAGS and DELTA_EMULATED_INCLUDE name what compiles kernels at run time"
#endif

enum { PATH_BYTES = 512, MOST_ARGUMENTS = 64, VERSION_MAJOR = 13 };
// Results are kept on disk by version and options, so each kind of build is a version of its own; none is one of NVRTC's.
#if defined(DELTA_EMULATED_TSAN)
enum { VERSION_MINOR = 901 };
#elif defined(DELTA_EMULATED_ASAN)
enum { VERSION_MINOR = 902 };
#elif defined(__clang__)
enum { VERSION_MINOR = 903 };
#else
enum { VERSION_MINOR = 904 };
#endif

extern char **environ;

typedef struct text {
  char *data; // Owned
  size_t size_bytes;
} text_t;

struct _nvrtcProgram {
  char *source; // Owned
  text_t object, log;
};

// ---- Text

// With a zero behind it, which does not count.
static bool append(text_t *text, const void *data, size_t size_bytes) {
  char *grown = realloc(text->data, text->size_bytes + size_bytes + 1);
  if (!grown) return false;
  memcpy(grown + text->size_bytes, data, size_bytes);
  text->data = grown;
  text->size_bytes += size_bytes;
  grown[text->size_bytes] = '\0';
  return true;
}

static bool append_string(text_t *text, const char *string) { return append(text, string, strlen(string)); }

static bool read_file(const char *path, text_t *text) {
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  char block[1 << 14];
  bool is_right = true;
  for (size_t size; is_right && (size = fread(block, 1, sizeof block, file)) > 0;) is_right = append(text, block, size);
  fclose(file);
  return is_right;
}

static bool write_file(const char *path, const text_t *text) {
  FILE *file = fopen(path, "wb");
  if (!file) return false;
  const bool is_right = fwrite(text->data, 1, text->size_bytes, file) == text->size_bytes;
  return fclose(file) == 0 && is_right;
}

// ---- What is compiled

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

// The name of the kernel whose declaration follows `at`: the first word before a parenthesis that is no word of CUDA's.
static bool find_kernel_name(const char *at, const char **out_name, size_t *out_length) {
  const char *word = NULL;
  for (; *at; ++at) {
    if (is_word(*at) && (!word || !is_word(at[-1]))) word = at;
    if (*at != '(' || !word) continue;
    const size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (strncmp(word, "__launch_bounds__", length) == 0) {
      at += strcspn(at, ")");
      if (!*at) return false;
      word = NULL;
      continue;
    }
    *out_name = word;
    *out_length = length;
    return true;
  }
  return false;
}

static bool waits(const char *source) {
  static const char *const words[] = {"__syncthreads", "_sync(", "__syncwarp", "__shared__"};
  for (size_t k = 0; k < sizeof words / sizeof *words; ++k) {
    if (strstr(source, words[k])) return true;
  }
  return false;
}

// The source between the words of kernels and a description of each kernel.
static bool make_source(const char *source, text_t *text) {
  const char mark[] = "__global__";
  bool is_right = append_string(text, waits(source) ? "#define DELTA_EMULATED_IS_FREE 0\n" : "#define DELTA_EMULATED_IS_FREE 1\n") &&
                  append_string(text, "#include \"emulated_kernel.h\"\n#line 1 \"kernel.cu\"\n") && append_string(text, source);
  for (const char *at = source; is_right && (at = strstr(at, mark));) {
    const char *name;
    size_t length;
    at += sizeof mark - 1;
    if (!find_kernel_name(at, &name, &length)) break;
    is_right = append_string(text, "\nDELTA_EMULATED_KERNEL(") && append(text, name, length) && append_string(text, ")");
  }
  return is_right && append_string(text, "\n");
}

// ---- The compiler

typedef struct command {
  char *words[MOST_ARGUMENTS + 1];
  int count;
} command_t;

static void add_word(command_t *command, const char *word) {
  if (command->count < MOST_ARGUMENTS) command->words[command->count++] = (char *)word;
}

// Splits words at spaces, in place.
static void add_words(command_t *command, char *words) {
  char *rest = NULL;
  for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) add_word(command, word);
}

// Options of NVRTC that mean something here, or nothing.
static bool add_option(command_t *command, const char *option) {
  static const char *const without_meaning[] = {"--gpu-architecture",
                                                "-arch",
                                                "--std",
                                                "-std",
                                                "--fmad",
                                                "-fmad",
                                                "--use_fast_math=false",
                                                "--disable-warnings",
                                                "--restrict",
                                                "-restrict",
                                                "--device-as-default-execution-space",
                                                "-default-device",
                                                "--extra-device-vectorization",
                                                "--prec-div=true",
                                                "--prec-sqrt=true",
                                                "--ftz=false"};
  if (strncmp(option, "-D", 2) == 0) {
    add_word(command, option);
    return true;
  }
  for (size_t k = 0; k < sizeof without_meaning / sizeof *without_meaning; ++k) {
    if (strncmp(option, without_meaning[k], strlen(without_meaning[k])) == 0) return true;
  }
  return false;
}

// Runs a command with its messages in a file; false: it could not run or did not end well.
static bool run_command(const command_t *command, const char *log_path) {
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) return false;
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  pid_t child;
  const bool is_started = posix_spawnp(&child, command->words[0], &actions, NULL, command->words, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  return is_started && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static nvrtcResult compile_in(const char *folder, nvrtcProgram program, int option_count, const char *const *options) {
  char source_path[PATH_BYTES], object_path[PATH_BYTES], log_path[PATH_BYTES], flags[] = DELTA_EMULATED_FLAGS;
  snprintf(source_path, sizeof source_path, "%s/kernel.cpp", folder);
  snprintf(object_path, sizeof object_path, "%s/kernel.so", folder);
  snprintf(log_path, sizeof log_path, "%s/log", folder);
  command_t command = {.count = 0};
  add_word(&command, DELTA_EMULATED_COMPILER);
  add_words(&command, flags);
  for (int k = 0; k < option_count; ++k) {
    if (!add_option(&command, options[k])) return NVRTC_ERROR_INVALID_OPTION;
  }
  const char *const rest[] = {"-I", DELTA_EMULATED_INCLUDE, "-o", object_path, source_path};
  for (size_t k = 0; k < sizeof rest / sizeof *rest; ++k) add_word(&command, rest[k]);
  text_t text = {0};
  bool is_right = make_source(program->source, &text) && write_file(source_path, &text);
  free(text.data);
  if (!is_right) return NVRTC_ERROR_PROGRAM_CREATION_FAILURE;
  is_right = run_command(&command, log_path);
  read_file(log_path, &program->log);
  if (is_right && !read_file(object_path, &program->object)) is_right = false;
  const char *const paths[] = {source_path, object_path, log_path};
  for (size_t k = 0; k < sizeof paths / sizeof *paths; ++k) unlink(paths[k]);
  return is_right ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

// ---- Calls

const char *nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
#define RESULT(name) \
  case name:         \
    return #name;
    RESULT(NVRTC_SUCCESS)
    RESULT(NVRTC_ERROR_OUT_OF_MEMORY)
    RESULT(NVRTC_ERROR_PROGRAM_CREATION_FAILURE)
    RESULT(NVRTC_ERROR_INVALID_INPUT)
    RESULT(NVRTC_ERROR_INVALID_PROGRAM)
    RESULT(NVRTC_ERROR_INVALID_OPTION)
    RESULT(NVRTC_ERROR_COMPILATION)
    RESULT(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE)
    RESULT(NVRTC_ERROR_INTERNAL_ERROR)
#undef RESULT
  }
  return "an unknown result";
}

nvrtcResult nvrtcVersion(int *major, int *minor) {
  DELTA_EMULATED_ENTER(NVRTC_ERROR_INVALID_INPUT);
  *major = VERSION_MAJOR;
  *minor = VERSION_MINOR;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out_program, const char *source, const char *name, int header_count,
                               const char *const *headers, const char *const *header_names) {
  DELTA_EMULATED_ENTER(NVRTC_ERROR_OUT_OF_MEMORY);
  (void)name, (void)headers, (void)header_names;
  if (header_count) return NVRTC_ERROR_INVALID_INPUT;
  nvrtcProgram program = calloc(1, sizeof *program);
  if (program) program->source = strdup(source);
  if (!program || !program->source) {
    free(program);
    return NVRTC_ERROR_OUT_OF_MEMORY;
  }
  *out_program = program;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  DELTA_EMULATED_ENTER(NVRTC_ERROR_INTERNAL_ERROR);
  if (!*program) return NVRTC_ERROR_INVALID_PROGRAM;
  free((*program)->source);
  free((*program)->object.data);
  free((*program)->log.data);
  free(*program);
  *program = NULL;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int option_count, const char *const *options) {
  DELTA_EMULATED_ENTER(NVRTC_ERROR_COMPILATION);
  char folder[PATH_BYTES / 2];
  const char *parent = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/delta-kernel-XXXXXX", parent ? parent : "/tmp");
  if (!mkdtemp(folder)) return NVRTC_ERROR_PROGRAM_CREATION_FAILURE;
  const nvrtcResult result = compile_in(folder, program, option_count, options);
  rmdir(folder);
  return result;
}

// X(size call, text call, text of the program, 1 where a zero ends it). PTX is the same thing as CUBIN here.
#define TEXT_CALLS(X)                            \
  X(nvrtcGetCUBINSize, nvrtcGetCUBIN, object, 0) \
  X(nvrtcGetPTXSize, nvrtcGetPTX, object, 0)     \
  X(nvrtcGetProgramLogSize, nvrtcGetProgramLog, log, 1)

static void get_text(const text_t *text, size_t ends, char *out) {
  if (text->size_bytes) memcpy(out, text->data, text->size_bytes);
  if (ends) out[text->size_bytes] = '\0';
}

#define TEXT_CALL(size_call, text_call, text, ends)               \
  nvrtcResult size_call(nvrtcProgram program, size_t *out_size) { \
    DELTA_EMULATED_ENTER(NVRTC_ERROR_INTERNAL_ERROR);             \
    *out_size = program->text.size_bytes + (ends);                \
    return NVRTC_SUCCESS;                                         \
  }                                                               \
  nvrtcResult text_call(nvrtcProgram program, char *out) {        \
    DELTA_EMULATED_ENTER(NVRTC_ERROR_INTERNAL_ERROR);             \
    get_text(&program->text, (ends), out);                        \
    return NVRTC_SUCCESS;                                         \
  }
TEXT_CALLS(TEXT_CALL)
