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
// `entry` must not return. `sanitizer` is of delta_fiber_sanitizer_create; fibers that share one are in order for ThreadSanitizer.
void delta_fiber_init(delta_fiber_t *fiber, void *stack, size_t stack_bytes, void (*entry)(void *argument), void *argument,
                      void *sanitizer);
// NULL in builds without ThreadSanitizer. There are few: beyond 255 threads and fibers it forgets what it has seen.
void *delta_fiber_sanitizer_create(void);
void delta_fiber_sanitizer_destroy(void *sanitizer);
// Goes on with `to`; returns when something switches back. No order between the two.
void delta_fiber_switch(delta_fiber_t *from, delta_fiber_t *to);

#endif // DELTA_TESTS_CUDA_FIBER_H_
