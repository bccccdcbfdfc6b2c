// Finding a module's file, and making sure that it is of this version: structures are shared.
#include "runtime/module.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <delta/version.h>

enum { NAME_BYTES = 64 };

// How messages, files and variables call a driver's module.
typedef struct module_names {
  char symbol[NAME_BYTES];   // delta_cuda_module
  char file[NAME_BYTES];     // libdelta-cuda.so
  char variable[NAME_BYTES]; // DELTA_CUDA_MODULE
} module_names_t;

static void name_module(const char *driver, module_names_t *names) {
  snprintf(names->symbol, NAME_BYTES, "delta_%s_module", driver);
  snprintf(names->file, NAME_BYTES, "libdelta-%s.so", driver);
  snprintf(names->variable, NAME_BYTES, "DELTA_%s_MODULE", driver);
  for (char *c = names->variable; *c; ++c) *c = (char)toupper((unsigned char)*c);
}

// The path of a file beside what this function is part of, the library or a program; false: it is not known.
static bool path_beside(const char *folder, const char *file, char path[PATH_MAX]) {
  Dl_info info;
  char own[PATH_MAX];
  if (!dladdr(path_beside, &info) || !info.dli_fname || !realpath(info.dli_fname, own)) return false;
  char *slash = strrchr(own, '/');
  if (!slash) return false;
  *slash = '\0';
  const int length = snprintf(path, PATH_MAX, "%s/%s%s", own, folder, file);
  return length > 0 && length < PATH_MAX;
}

static void *open_file(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }

// The first of the places that has the file decides: a file that does not load there is told of, and not passed over.
static void *open_found(const module_names_t *names) {
  static const char *const folders[] = {"", DELTA_LIBRARIES_BESIDE_PROGRAMS "/"};
  char path[PATH_MAX];
  for (size_t i = 0; i < sizeof folders / sizeof *folders; ++i) {
    FILE *file = path_beside(folders[i], names->file, path) ? fopen(path, "rb") : NULL;
    if (!file) continue;
    fclose(file);
    return open_file(path);
  }
  return open_file(names->file);
}

// The program itself, where it has the driver linked in; else the file.
static void *open_module(const module_names_t *names) {
  void *program = dlopen(NULL, RTLD_NOW);
  if (program && dlsym(program, names->symbol)) return program;
  if (program) dlclose(program);
  const char *path = secure_getenv(names->variable);
  return path ? open_file(path) : open_found(names);
}

delta_status_t delta_module_open(const char *driver, void **out_module, const delta_driver_row_t **out_row) {
  *out_module = NULL;
  module_names_t names;
  name_module(driver, &names);
  void *module = open_module(&names);
  if (!module) {
    return delta_status_make(NOT_FOUND, "the %s driver's module was not loaded: %s; build Delta with it (docs/%s.md), or give --device cpu",
                             driver, dlerror(), driver);
  }
  const delta_driver_module_t *description = dlsym(module, names.symbol);
  if (description && strcmp(description->version, DELTA_VERSION_STRING) == 0 && description->device_bytes == sizeof(delta_device_t) &&
      description->driver_bytes == sizeof(delta_device_driver_t)) {
    *out_module = module;
    *out_row = &description->row;
    return DELTA_OK;
  }
  delta_status_t status =
      delta_status_make(MISMATCH, "the %s driver's module is of version %s, this is Delta %s: install both from one build", driver,
                        description ? description->version : "unknown", DELTA_VERSION_STRING);
  dlclose(module);
  return status;
}

void delta_module_close(void *module) {
  if (module) dlclose(module);
}
