// Modules: shared objects that nvrtc.c made, opened through a file of a name of its own. The size of an image is not told, so its end is read from its header. What kernels call is in the program,
// or in the module that the emulation is a part of.
#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <emulated_launch.h>
#include <emulated_module.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cuda/emulation/calls.h"
#include "tests/cuda/emulation/stream.h"

struct CUmod_st {
  void *object;
  CUfunction functions; // Owned; a list
};

struct CUfunc_st {
  CUfunction next;
  const delta_emulated_function_t *description;
};

// ---- Modules

static size_t image_bytes(const void *image) {
  const Elf64_Ehdr *header = image;
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return 0;
  return (size_t)header->e_shoff + (size_t)header->e_shentsize * header->e_shnum;
}

static bool write_all(int file, const uint8_t *data, size_t size_bytes) {
  for (ssize_t written; size_bytes > 0; data += written, size_bytes -= (size_t)written) {
    written = write(file, data, size_bytes);
    if (written <= 0) return false;
  }
  return true;
}

// Lets what is loaded from now on see the functions of the emulation, where it is in a library that was opened for itself.
static void show_functions(void) {
  static atomic_bool is_shown;
  Dl_info info;
  if (!atomic_exchange(&is_shown, true) && dladdr((void *)show_functions, &info) && info.dli_fname) {
    void *own = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    if (own) dlclose(own);
  }
}

// The loader knows objects by name, also after they were closed. NULL: it cannot be written or loaded, which is reported.
static void *open_image(const void *image, size_t size_bytes) {
  char path[512];
  const char *folder = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/delta-module-XXXXXX", folder ? folder : "/tmp");
  const int file = mkstemp(path);
  const bool is_written = file >= 0 && write_all(file, image, size_bytes);
  void *object = is_written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!object) delta_emulated_report("cuModuleLoadData: %s", is_written ? dlerror() : "the image cannot be written");
  if (file >= 0) {
    close(file);
    unlink(path);
  }
  return object;
}

CUresult cuModuleLoadData(CUmodule *out_module, const void *image) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_INVALID_IMAGE);
  if (!delta_emulated_has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  const size_t size_bytes = image_bytes(image);
  if (size_bytes == 0) return CUDA_ERROR_INVALID_IMAGE;
  CUmodule module = calloc(1, sizeof *module);
  if (!module) return CUDA_ERROR_OUT_OF_MEMORY;
  show_functions();
  module->object = open_image(image, size_bytes);
  if (!module->object) {
    free(module);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *out_module = module;
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (!delta_emulated_has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  delta_emulated_synchronize_streams();
  for (CUfunction function = module->functions, next; function; function = next) {
    next = function->next;
    free(function);
  }
  dlclose(module->object);
  free(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *out_function, CUmodule module, const char *name) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_NOT_FOUND);
  char symbol[256];
  snprintf(symbol, sizeof symbol, DELTA_EMULATED_FUNCTION_PREFIX "%s", name);
  const delta_emulated_function_t *description = dlsym(module->object, symbol);
  if (!description) return CUDA_ERROR_NOT_FOUND;
  CUfunction function = malloc(sizeof *function);
  if (!function) return CUDA_ERROR_OUT_OF_MEMORY;
  *function = (struct CUfunc_st){.next = module->functions, .description = description};
  module->functions = function;
  *out_function = function;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS ? 32 : 0;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  return attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value <= 227 << 10 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- Launches

// The arguments, and behind them their bytes.
typedef struct function_call {
  const delta_emulated_function_t *function;
  void *arguments[];
} function_call_t;

static void run_thread(const void *self) {
  const function_call_t *call = self;
  call->function->run_thread(call->arguments);
}

static void run_block(const void *self) {
  const function_call_t *call = self;
  call->function->run_block(call->arguments);
}

enum { ARGUMENT_ALIGNMENT = 16 };

static size_t room_for(const delta_emulated_parameter_t *parameter) {
  return (parameter->size_bytes + ARGUMENT_ALIGNMENT - 1) / ARGUMENT_ALIGNMENT * ARGUMENT_ALIGNMENT;
}

static function_call_t *make_call(const delta_emulated_function_t *function, void *const *values) {
  size_t size_bytes = sizeof(function_call_t) + (size_t)function->parameter_count * sizeof(void *) + ARGUMENT_ALIGNMENT;
  for (int k = 0; k < function->parameter_count; ++k) size_bytes += room_for(&function->parameters[k]);
  function_call_t *call = malloc(size_bytes);
  if (!call) return NULL;
  call->function = function;
  uintptr_t at = (uintptr_t)(call->arguments + function->parameter_count);
  at = (at + ARGUMENT_ALIGNMENT - 1) / ARGUMENT_ALIGNMENT * ARGUMENT_ALIGNMENT;
  for (int k = 0; k < function->parameter_count; ++k) {
    call->arguments[k] = (void *)at;
    memcpy(call->arguments[k], values[k], function->parameters[k].size_bytes);
    at += room_for(&function->parameters[k]);
  }
  return call;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                        unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **values,
                        void **extra) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  if (!delta_emulated_has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  if (!function || extra) return CUDA_ERROR_INVALID_VALUE;
  const delta_emulated_function_t *description = function->description;
  function_call_t *call = make_call(description, values);
  if (!call) return CUDA_ERROR_OUT_OF_MEMORY;
  delta_emulated_launch_t launch = {.name = description->name,
                                    .is_free = description->is_free,
                                    .grid = {grid_x, grid_y, grid_z},
                                    .block = {block_x, block_y, block_z},
                                    .shared_bytes = shared_bytes,
                                    .self = call,
                                    .run_thread = run_thread,
                                    .run_block = run_block,
                                    .destroy = free};
  for (int k = 0; k < description->parameter_count; ++k) {
    if (!description->parameters[k].is_pointer || launch.pointer_count == DELTA_EMULATED_MOST_POINTERS) continue;
    memcpy(&launch.pointers[launch.pointer_count++], call->arguments[k], sizeof(void *));
  }
  return (CUresult)delta_emulated_launch(&launch, stream);
}
