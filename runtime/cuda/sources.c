// Sources: compiling, keeping on disk, loading.
#include "runtime/cuda/sources.h"

#include <stdio.h>
#include <string.h>

#include <nvrtc.h>

#include "base/file.h"
#include "base/map.h"
#include "base/sha256.h"
#include "runtime/cache.h"

enum { MOST_OPTIONS = 8, OPTION_BYTES = 64, MOST_CODE_BYTES = 64 << 20, MOST_MESSAGE_BYTES = 2000 };

struct delta_cuda_sources {
  delta_allocator_t allocator;
  delta_map_t numbers; // hash of a source -> number of its module
  DELTA_ARRAY(CUmodule) modules;
};

// Machine code of one source.
typedef struct code {
  char *data; // Owned; zero-terminated, as PTX must be.
  size_t size_bytes;
} code_t;

// ---- Compiling

// What NVRTC is told. A GPU that is newer than the compiler gets code that the driver translates: `newest` is then the architecture that stands for all later ones.
typedef struct options {
  char texts[MOST_OPTIONS][OPTION_BYTES];
  const char *items[MOST_OPTIONS];
  int count;
} options_t;

static const char *const newest_architecture = "compute_90";

static options_t options_of(const delta_cuda_device_t *device, bool is_translated) {
  static const char *const fixed[] = {"--std=c++17", "--fmad=false", "--device-as-default-execution-space", "--disable-warnings"};
  options_t options = {0};
  for (size_t k = 0; k < sizeof fixed / sizeof *fixed; ++k) snprintf(options.texts[options.count++], OPTION_BYTES, "%s", fixed[k]);
  if (is_translated)
    snprintf(options.texts[options.count++], OPTION_BYTES, "--gpu-architecture=%s", newest_architecture);
  else
    snprintf(options.texts[options.count++], OPTION_BYTES, "--gpu-architecture=sm_%d%d", device->capability_major,
             device->capability_minor);
  return options;
}

static delta_status_t tell_compiler_messages(delta_allocator_t allocator, nvrtcProgram program, const char *what) {
  size_t size_bytes = 0;
  char *log = NULL;
  if (nvrtcGetProgramLogSize(program, &size_bytes) == NVRTC_SUCCESS && size_bytes > 0) {
    delta_status_free(DELTA_ALLOCATE(allocator, size_bytes + 1, &log));
    if (log && nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS) log[0] = '\0';
  }
  const delta_status_t status =
      delta_status_make(INTERNAL, "the run-time compiler refuses the source of '%s': %.*s", what, (int)MOST_MESSAGE_BYTES, log ? log : "");
  delta_release(allocator, log);
  return status;
}

static delta_status_t take_code(delta_allocator_t allocator, nvrtcProgram program, bool is_translated, code_t *out_code) {
  DELTA_RETURN_IF_ERROR(is_translated ? DELTA_NVRTC_CHECK(nvrtcGetPTXSize(program, &out_code->size_bytes))
                                      : DELTA_NVRTC_CHECK(nvrtcGetCUBINSize(program, &out_code->size_bytes)));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, out_code->size_bytes + 1, &out_code->data));
  return is_translated ? DELTA_NVRTC_CHECK(nvrtcGetPTX(program, out_code->data))
                       : DELTA_NVRTC_CHECK(nvrtcGetCUBIN(program, out_code->data));
}

static delta_status_t compile(delta_cuda_device_t *device, const char *text, const char *what, code_t *out_code) {
  delta_allocator_t allocator = device->base.allocator;
  nvrtcProgram program = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_NVRTC_CHECK(nvrtcCreateProgram(&program, text, what, 0, NULL, NULL)));
  delta_status_t status = DELTA_OK;
  nvrtcResult result = NVRTC_ERROR_INVALID_OPTION;
  bool is_translated = false;
  for (int attempt = 0; attempt < 2 && result == NVRTC_ERROR_INVALID_OPTION; ++attempt) {
    is_translated = attempt > 0;
    options_t options = options_of(device, is_translated);
    for (int k = 0; k < options.count; ++k) options.items[k] = options.texts[k];
    result = nvrtcCompileProgram(program, options.count, options.items);
  }
  if (result == NVRTC_ERROR_COMPILATION) {
    status = tell_compiler_messages(allocator, program, what);
  } else {
    status = DELTA_NVRTC_CHECK(result);
  }
  if (!status) status = take_code(allocator, program, is_translated, out_code);
  nvrtcDestroyProgram(&program);
  return status;
}

// ---- On disk

static void name_source(const delta_cuda_device_t *device, const char *text, char out_name[DELTA_SHA256_TEXT_BYTES]) {
  int major = 0, minor = 0;
  if (nvrtcVersion(&major, &minor) != NVRTC_SUCCESS) major = minor = 0;
  const options_t options = options_of(device, false);
  delta_sha256_t hash;
  delta_sha256_init(&hash);
  for (int k = 0; k < options.count; ++k) delta_sha256_update(&hash, options.texts[k], sizeof options.texts[k]);
  delta_sha256_update(&hash, newest_architecture, strlen(newest_architecture));
  delta_sha256_update(&hash, &major, sizeof major);
  delta_sha256_update(&hash, &minor, sizeof minor);
  delta_sha256_update(&hash, text, strlen(text));
  delta_sha256_final_text(&hash, out_name);
}

static void digest_of(const void *data, size_t size_bytes, uint8_t out_digest[DELTA_SHA256_BYTES]) {
  delta_sha256_t hash;
  delta_sha256_init(&hash);
  delta_sha256_update(&hash, data, size_bytes);
  delta_sha256_final(&hash, out_digest);
}

// Keeping is a help: what hinders it is passed over, unless memory is short.
static delta_status_t pass_over(delta_status_t status) {
  if (delta_status_code(status) == DELTA_STATUS_OUT_OF_MEMORY) return status;
  delta_status_free(status);
  return DELTA_OK;
}

// A kept file is the digest of the code, then the code. No code when there is none that is whole.
static delta_status_t find_kept(delta_allocator_t allocator, const char *path, code_t *out_code) {
  char *data = NULL;
  size_t size_bytes = 0;
  delta_status_t status = delta_file_read_all(path, MOST_CODE_BYTES, allocator, &data, &size_bytes);
  bool is_whole = !status && size_bytes > DELTA_SHA256_BYTES;
  if (is_whole) {
    uint8_t digest[DELTA_SHA256_BYTES];
    digest_of(data + DELTA_SHA256_BYTES, size_bytes - DELTA_SHA256_BYTES, digest);
    is_whole = memcmp(digest, data, sizeof digest) == 0;
  }
  if (!is_whole) {
    delta_release(allocator, data);
    return pass_over(status);
  }
  memmove(data, data + DELTA_SHA256_BYTES, size_bytes - DELTA_SHA256_BYTES + 1);
  *out_code = (code_t){data, size_bytes - DELTA_SHA256_BYTES};
  return DELTA_OK;
}

static delta_status_t keep(delta_allocator_t allocator, const char *path, const code_t *code) {
  delta_file_writer_t writer = {.descriptor = -1};
  delta_status_t status;
  uint8_t digest[DELTA_SHA256_BYTES];
  digest_of(code->data, code->size_bytes, digest);
  DELTA_GOTO_IF_ERROR(status, delta_file_writer_open(path, allocator, &writer), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_file_writer_write(&writer, digest, sizeof digest), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_file_writer_write(&writer, code->data, code->size_bytes), cleanup);
  status = delta_file_writer_commit(&writer);
cleanup:
  delta_file_writer_close(&writer);
  return status;
}

// The code of a text, from disk or made.
static delta_status_t find_code(delta_cuda_device_t *device, const char *hash, const char *text, const char *what, code_t *out_code) {
  delta_allocator_t allocator = device->base.allocator;
  char name[DELTA_SHA256_TEXT_BYTES + 16], *path = NULL;
  snprintf(name, sizeof name, "cuda/%s.code", hash);
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, pass_over(delta_cache_path(name, allocator, &path)), cleanup);
  if (path) DELTA_GOTO_IF_ERROR(status, find_kept(allocator, path, out_code), cleanup);
  if (out_code->data) goto cleanup;
  DELTA_GOTO_IF_ERROR(status, compile(device, text, what, out_code), cleanup);
  if (path) status = pass_over(keep(allocator, path, out_code));
cleanup:
  delta_release(allocator, path);
  return status;
}

// ---- Loaded

static delta_status_t load(delta_cuda_device_t *device, const char *hash, const char *text, const char *what) {
  delta_cuda_sources_t *sources = device->sources;
  code_t code = {0};
  CUmodule module = NULL;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, find_code(device, hash, text, what, &code), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_CU_CHECK(cuModuleLoadData(&module, code.data)), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_array_reserve(sources->allocator, &sources->modules, 1), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_map_set(&sources->numbers, hash, (uint32_t)sources->modules.count), cleanup);
  sources->modules.items[sources->modules.count++] = module;
  module = NULL;
cleanup:
  if (module) cuModuleUnload(module);
  delta_release(device->base.allocator, code.data);
  return status;
}

static delta_status_t make_sources(delta_cuda_device_t *device) {
  if (device->sources) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(device->base.allocator, 1, &device->sources));
  device->sources->allocator = device->base.allocator;
  delta_map_init(&device->sources->numbers, device->base.allocator);
  return DELTA_OK;
}

delta_status_t delta_cuda_source_function(delta_cuda_device_t *device, const char *text, const char *name, CUfunction *out_function) {
  DELTA_RETURN_IF_ERROR(make_sources(device));
  char hash[DELTA_SHA256_TEXT_BYTES];
  name_source(device, text, hash);
  if (delta_map_find(&device->sources->numbers, hash) == DELTA_MAP_NONE) DELTA_RETURN_IF_ERROR(load(device, hash, text, name));
  const CUmodule module = device->sources->modules.items[delta_map_find(&device->sources->numbers, hash)];
  return DELTA_CU_CHECK(cuModuleGetFunction(out_function, module, name));
}

void delta_cuda_sources_destroy(delta_cuda_sources_t *sources) {
  if (!sources) return;
  for (size_t k = 0; k < sources->modules.count; ++k) cuModuleUnload(sources->modules.items[k]);
  delta_array_deinit(sources->allocator, &sources->modules);
  delta_map_deinit(&sources->numbers);
  delta_release(sources->allocator, sources);
}
