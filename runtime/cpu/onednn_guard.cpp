// The one file in C++: oneDNN's C functions let exceptions of C++ through (std::bad_alloc, when memory ends), which would end a program in C. Each call that
// allocates is made here, and becomes a status. What oneDNN throws where it promised not to (destructors, its own threads) cannot be caught anywhere.
#include <dnnl.h>

#define DELTA_ONEDNN_CALL(name, parameters, arguments)           \
  extern "C" dnnl_status_t delta_onednn_call_##name parameters { \
    try {                                                        \
      return dnnl_##name arguments;                              \
    } catch (...) {                                              \
      return dnnl_out_of_memory;                                 \
    }                                                            \
  }
#include "runtime/cpu/onednn_calls.inc"
#undef DELTA_ONEDNN_CALL
