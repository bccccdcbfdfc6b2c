// oneDNN: what its primitives need in common. The library's API stays behind this file and one file per family of operators.
//
// A primitive is made when a kernel is prepared and takes its scratchpad from the kernel's planned workspace.
#ifndef DELTA_RUNTIME_CPU_ONEDNN_H_
#define DELTA_RUNTIME_CPU_ONEDNN_H_

#include <dnnl.h>

#include "runtime/cpu/kernel.h"

enum { DELTA_ONEDNN_MAX_ARGS = 5 };

// oneDNN's calls that may throw, as functions that return dnnl_out_of_memory instead.
#define DELTA_ONEDNN_MAKE(name, parameters, arguments) dnnl_status_t delta_onednn_call_##name parameters;
#define DELTA_ONEDNN_CALL(name, parameters, arguments) DELTA_ONEDNN_MAKE(name, parameters, arguments)
#include "runtime/cpu/onednn_calls.inc"
#undef DELTA_ONEDNN_CALL
#undef DELTA_ONEDNN_MAKE

// A primitive with its memory objects; stored as a kernel's state.
typedef struct delta_onednn_primitive {
  dnnl_engine_t engine;                        // Owned.
  dnnl_stream_t stream;                        // Owned.
  dnnl_primitive_t primitive;                  // Owned.
  dnnl_exec_arg_t args[DELTA_ONEDNN_MAX_ARGS]; // their memories are owned
  int arg_count;
  dnnl_memory_t scratchpad; // one of args, or NULL
} delta_onednn_primitive_t;

// Turns a failed call into a status that names the call.
DELTA_MUST_USE delta_status_t delta_onednn_status(dnnl_status_t result, const char *call);
#define DELTA_ONEDNN(expression) delta_onednn_status((expression), #expression)

// Engine and stream of a zeroed primitive, and the end of all that it owns.
DELTA_MUST_USE delta_status_t delta_onednn_init(delta_onednn_primitive_t *primitive);
void delta_onednn_deinit(delta_onednn_primitive_t *primitive);
// Makes kernel->state with engine and stream.
DELTA_MUST_USE delta_status_t delta_onednn_open(delta_kernel_t *kernel, delta_onednn_primitive_t **out_primitive);
// Makes a description from an operation descriptor, with the scratchpad left to the caller. `hint` may be NULL. The caller destroys it.
DELTA_MUST_USE delta_status_t delta_onednn_describe(const delta_onednn_primitive_t *primitive, const void *descriptor,
                                                    dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out_description);
// The same for a result that is added to what its memory holds.
DELTA_MUST_USE delta_status_t delta_onednn_describe_adding(const delta_onednn_primitive_t *primitive, const void *descriptor,
                                                           dnnl_primitive_desc_t *out_description);
// Makes the primitive and its scratchpad argument; says what the scratchpad needs.
DELTA_MUST_USE delta_status_t delta_onednn_make(delta_onednn_primitive_t *primitive, dnnl_primitive_desc_t description,
                                                size_t *out_scratchpad_bytes);
// The same for the primitive that is kernel->state; sets the kernel's workspace.
DELTA_MUST_USE delta_status_t delta_onednn_build(delta_kernel_t *kernel, dnnl_primitive_desc_t description);
// Takes bytes of the kernel's workspace, aligned; returns where.
size_t delta_onednn_reserve(delta_kernel_t *kernel, size_t size_bytes);
// Makes the primitive that copies from one layout to another; UNSUPPORTED when it would need a scratchpad. The caller destroys it.
DELTA_MUST_USE delta_status_t delta_onednn_reorder(const delta_onednn_primitive_t *primitive, const dnnl_memory_desc_t *from,
                                                   const dnnl_memory_desc_t *to, dnnl_primitive_t *out_reorder);
// Runs it between memories whose addresses are set.
DELTA_MUST_USE delta_status_t delta_onednn_convert(const delta_onednn_primitive_t *primitive, dnnl_primitive_t reorder, dnnl_memory_t from,
                                                   dnnl_memory_t to);
// Adds an argument whose address is set at each run, by its place among the args: 0, 1, ... in the order of these calls.
DELTA_MUST_USE delta_status_t delta_onednn_add(delta_onednn_primitive_t *primitive, int argument, const dnnl_memory_desc_t *layout);
// Runs with addresses[i] for argument i, and the workspace.
DELTA_MUST_USE delta_status_t delta_onednn_execute(const delta_kernel_t *kernel, const void *const *addresses, void *workspace);
// The same for any primitive.
DELTA_MUST_USE delta_status_t delta_onednn_execute_primitive(const delta_onednn_primitive_t *primitive, const void *const *addresses,
                                                             void *scratchpad);
// Row of the kernel table.
void delta_onednn_release(delta_kernel_t *kernel);

// A dense float32 layout of `rank` dimensions, or one with given strides. UNSUPPORTED above INT32_MAX elements, here and below: oneDNN counts with int.
DELTA_MUST_USE delta_status_t delta_onednn_dense(const int64_t *dims, int32_t rank, dnnl_memory_desc_t *out_layout);
DELTA_MUST_USE delta_status_t delta_onednn_strided(const int64_t *dims, const int64_t *strides, int32_t rank,
                                                   dnnl_memory_desc_t *out_layout);

// A dense float32 layout of a tensor [n, c, spatial...].
DELTA_MUST_USE delta_status_t delta_onednn_layout(const delta_shape_t *plain, delta_layout_t layout, dnnl_memory_desc_t *out_layout);

#endif // DELTA_RUNTIME_CPU_ONEDNN_H_
