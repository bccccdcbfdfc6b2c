// Driver modules: drivers that are files of their own, since what they link with is large and not on every machine. A module is opened when a device of its driver is asked
// for.
//
// It is looked for in the program itself (one that has the driver linked in), beside the library or program, in the folder of libraries beside the program's, and where the
// loader looks. The environment variable DELTA_NAME_MODULE (DELTA_CUDA_MODULE) names another file, and then no other is tried.
#ifndef DELTA_RUNTIME_MODULE_H_
#define DELTA_RUNTIME_MODULE_H_

#include "runtime/device.h"

// Opens the module of a driver. NOT_FOUND: there is no such file, or it does not load; with the loader's own text. MISMATCH: it is of another version.
DELTA_MUST_USE delta_status_t delta_module_open(const char *driver, void **out_module, const delta_driver_row_t **out_row);
void delta_module_close(void *module); // NULL is fine.

#endif // DELTA_RUNTIME_MODULE_H_
