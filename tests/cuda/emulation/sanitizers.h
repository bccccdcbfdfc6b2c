// What ThreadSanitizer is told: which of the emulation's doings are order by CUDA's rules, and which are none of its business.
//
// Everything here is nothing in other builds.
#ifndef DELTA_TESTS_CUDA_SANITIZERS_H_
#define DELTA_TESTS_CUDA_SANITIZERS_H_

#ifdef DELTA_EMULATED_TSAN
void __tsan_acquire(void *at);
void __tsan_release(void *at);
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

// What was done before a release of `at` is before what is done after an acquire that follows.
static inline void delta_order_release(const void *at) { __tsan_release((void *)at); }
static inline void delta_order_acquire(const void *at) { __tsan_acquire((void *)at); }

// Between these two locks, conditions and accesses are bookkeeping: no order, no race.
static inline void delta_hidden_begin(void) {
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
static inline void delta_hidden_end(void) {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}
#else
static inline void delta_order_release(const void *at) { (void)at; }
static inline void delta_order_acquire(const void *at) { (void)at; }
static inline void delta_hidden_begin(void) {}
static inline void delta_hidden_end(void) {}
#endif

#endif // DELTA_TESTS_CUDA_SANITIZERS_H_
