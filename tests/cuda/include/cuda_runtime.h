// The header of .cu files: the words of kernels and, in place of <<<>>>, launches that the emulation puts on a stream.
#ifndef DELTA_TESTS_CUDA_CUDA_RUNTIME_H_
#define DELTA_TESTS_CUDA_CUDA_RUNTIME_H_

#include "cuda_runtime_api.h"

#ifdef __cplusplus
#include <tuple>
#include <type_traits>
#include <utility>

#include "emulated_kernel.h"
#include "emulated_launch.h"

template <class Arguments, class... Parameters>
struct delta_emulated_call {
  void (*kernel)(Parameters...);
  Arguments arguments;

  static void run_thread(const void *self) {
    const delta_emulated_call *call = static_cast<const delta_emulated_call *>(self);
    std::apply(call->kernel, call->arguments);
  }
  static void run_block(const void *self) {
    delta_emulated_loop([self] { run_thread(self); });
  }
  static void destroy(void *self) { delete static_cast<delta_emulated_call *>(self); }
};

template <class Argument>
static inline void delta_emulated_note_pointer(delta_emulated_launch_t *launch, const Argument &argument) {
  if constexpr (std::is_pointer_v<Argument>) {
    if (launch->pointer_count < DELTA_EMULATED_MOST_POINTERS) {
      launch->pointers[launch->pointer_count++] = static_cast<const void *>(argument);
    }
  }
}

// What <<<grid, block, shared_bytes, stream>>> does. Arguments are converted to the kernel's parameters and copied now.
template <class... Parameters, class... Arguments>
static inline void delta_emulated_call_kernel(const char *name, int is_free, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                              size_t shared_bytes, cudaStream_t stream, Arguments &&...arguments) {
  typedef std::tuple<std::decay_t<Parameters>...> arguments_t;
  typedef delta_emulated_call<arguments_t, Parameters...> call_t;
  delta_emulated_launch_t launch = {};
  call_t *call = new call_t{kernel, arguments_t(static_cast<std::decay_t<Parameters>>(std::forward<Arguments>(arguments))...)};
  std::apply([&launch](const auto &...each) { (delta_emulated_note_pointer(&launch, each), ...); }, call->arguments);
  launch.name = name;
  launch.is_free = is_free;
  launch.grid = grid;
  launch.block = block;
  launch.shared_bytes = shared_bytes;
  launch.self = call;
  launch.run_thread = call_t::run_thread;
  launch.run_block = call_t::run_block;
  launch.destroy = call_t::destroy;
  delta_emulated_launch(&launch, stream);
}
#endif

#endif // DELTA_TESTS_CUDA_CUDA_RUNTIME_H_
