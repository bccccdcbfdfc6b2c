#include "tests/cuda/emulation/fiber.h"

#include <stdint.h>

#include "tests/cuda/emulation/sanitizers.h"

#ifdef DELTA_FIBER_IN_ASSEMBLER

// Saves what a call preserves, leaves its stack pointer at *save and goes on from the other.
void delta_fiber_jump(void **save, void *stack_pointer);
// Where a fiber begins: its entry lies in r13, the argument in r12.
void delta_fiber_begin(void);

__asm__(
    ".text\n"
    ".type delta_fiber_jump, @function\n"
    "delta_fiber_jump:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".type delta_fiber_begin, @function\n"
    "delta_fiber_begin:\n"
    "  movq %r12, %rdi\n"
    "  callq *%r13\n"
    "  ud2\n");

static void init_stack(delta_fiber_t *fiber, void *stack, size_t stack_bytes, void (*entry)(void *argument), void *argument) {
  enum { WORDS = 7 }; // r15, r14, r13, r12, rbx, rbp and where to go; the stack is aligned without them
  uintptr_t *top = (uintptr_t *)(((uintptr_t)stack + stack_bytes) & ~(uintptr_t)15) - WORDS;
  for (int k = 0; k < WORDS; ++k) top[k] = 0;
  top[2] = (uintptr_t)entry;
  top[3] = (uintptr_t)argument;
  top[6] = (uintptr_t)delta_fiber_begin;
  fiber->stack_pointer = top;
}

static void jump(delta_fiber_t *from, delta_fiber_t *to) { delta_fiber_jump(&from->stack_pointer, to->stack_pointer); }

#else

// makecontext passes int; a pointer goes in two halves.
static void begin(unsigned entry_low, unsigned entry_high, unsigned argument_low, unsigned argument_high) {
  void (*entry)(void *) = (void (*)(void *))((uintptr_t)entry_low | (uintptr_t)entry_high << 32);
  entry((void *)((uintptr_t)argument_low | (uintptr_t)argument_high << 32));
}

static void init_stack(delta_fiber_t *fiber, void *stack, size_t stack_bytes, void (*entry)(void *argument), void *argument) {
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = stack;
  fiber->context.uc_stack.ss_size = stack_bytes;
  fiber->context.uc_link = NULL;
  makecontext(&fiber->context, (void (*)(void))begin, 4, (unsigned)(uintptr_t)entry, (unsigned)((uintptr_t)entry >> 32),
              (unsigned)(uintptr_t)argument, (unsigned)((uintptr_t)argument >> 32));
}

static void jump(delta_fiber_t *from, delta_fiber_t *to) { swapcontext(&from->context, &to->context); }

#endif

void delta_fiber_init_thread(delta_fiber_t *fiber) {
#ifdef DELTA_EMULATED_TSAN
  fiber->sanitizer = __tsan_get_current_fiber();
#else
  fiber->sanitizer = NULL;
#endif
}

void delta_fiber_init(delta_fiber_t *fiber, void *stack, size_t stack_bytes, void (*entry)(void *argument), void *argument,
                      void *sanitizer) {
  fiber->sanitizer = sanitizer;
  init_stack(fiber, stack, stack_bytes, entry, argument);
}

void *delta_fiber_sanitizer_create(void) {
#ifdef DELTA_EMULATED_TSAN
  return __tsan_create_fiber(0);
#else
  return NULL;
#endif
}

void delta_fiber_sanitizer_destroy(void *sanitizer) {
#ifdef DELTA_EMULATED_TSAN
  __tsan_destroy_fiber(sanitizer);
#else
  (void)sanitizer;
#endif
}

void delta_fiber_switch(delta_fiber_t *from, delta_fiber_t *to) {
#ifdef DELTA_EMULATED_TSAN
  enum { NO_ORDER = 1 };
  if (to->sanitizer != from->sanitizer) __tsan_switch_to_fiber(to->sanitizer, NO_ORDER);
#endif
  jump(from, to);
}
