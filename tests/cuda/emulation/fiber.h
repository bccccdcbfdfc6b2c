// Fiber: a flow of control with its own stack. On x86-64 a switch is a few instructions; under AddressSanitizer, which has to know of stacks, and elsewhere it is
// swapcontext.
#ifndef DELTA_TESTS_CUDA_FIBER_H_
#define DELTA_TESTS_CUDA_FIBER_H_

#include <stddef.h>

#if defined(__x86_64__) && !defined(DELTA_EMULATED_ASAN)
#define DELTA_FIBER_IN_ASSEMBLER
#else
#include <ucontext.h>
#endif

typedef struct delta_fiber {
#ifdef DELTA_FIBER_IN_ASSEMBLER
  void *stack_pointer;
#else
  ucontext_t context;
#endif
  void *sanitizer; // what ThreadSanitizer knows it by
} delta_fiber_t;

// The flow of control of the calling thread itself.
void delta_fiber_init_thread(delta_fiber_t *fiber);
// `entry` must not return.
void delta_fiber_init(delta_fiber_t *fiber, void *stack, size_t stack_bytes, void (*entry)(void *argument), void *argument);
void delta_fiber_deinit(delta_fiber_t *fiber);
// Goes on with `to`; returns when something switches back. No order between the two.
void delta_fiber_switch(delta_fiber_t *from, delta_fiber_t *to);

#endif // DELTA_TESTS_CUDA_FIBER_H_
