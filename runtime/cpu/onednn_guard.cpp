// The one file in C++: oneDNN's C functions let exceptions of C++ through (std::bad_alloc, when memory ends), which would end a program in C. Each call that
// allocates is made here, and becomes a status. What oneDNN throws where it promised not to (destructors, its own threads) cannot be caught anywhere.
//
// Its own objects come from an operator new that answers NULL where no memory is left, and are written to all the same. So the calls with which
// making a kernel begins look whether there is room for more than that will take.
#include <cstddef>

#include <dnnl.h>
#include <sys/mman.h>

namespace {

constexpr std::size_t room_bytes = std::size_t{8} << 20;

// Nothing is touched: pages of the system are taken and given back, from which both the heap and the library's code grow.
bool has_room() {
  void *pages = mmap(nullptr, room_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return false;
  munmap(pages, room_bytes);
  return true;
}

}  // namespace

#define DELTA_ONEDNN_GUARD(name, parameters, arguments, may_call) \
  extern "C" dnnl_status_t delta_onednn_call_##name parameters {  \
    if (!(may_call)) return dnnl_out_of_memory;                   \
    try {                                                         \
      return dnnl_##name arguments;                               \
    } catch (...) {                                               \
      return dnnl_out_of_memory;                                  \
    }                                                             \
  }
#define DELTA_ONEDNN_MAKE(name, parameters, arguments) DELTA_ONEDNN_GUARD(name, parameters, arguments, has_room())
#define DELTA_ONEDNN_CALL(name, parameters, arguments) DELTA_ONEDNN_GUARD(name, parameters, arguments, true)
#include "runtime/cpu/onednn_calls.inc"
#undef DELTA_ONEDNN_MAKE
#undef DELTA_ONEDNN_CALL
#undef DELTA_ONEDNN_GUARD
