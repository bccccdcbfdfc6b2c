// A block's threads as fibers of one thread. A fiber runs until it waits: at a barrier, or for the other lanes of its warp; then the next one goes on. Those who come
// last to where all have to come let the others go on.
//
// This file is not instrumented: what ThreadSanitizer has to know of barriers it is told. The order that a barrier gives is kept by two addresses in turn, so that what a fast
// thread does after it is not taken for what a slow one may rely on.
#include <emulated_block.h>
#include <emulated_place.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/cuda/emulation/calls.h"
#include "tests/cuda/emulation/fiber.h"
#include "tests/cuda/emulation/memory.h"
#include "tests/cuda/emulation/team.h"

enum {
  MOST_THREADS = 1024,
  LANES = 32,
  PAGE_BYTES = 4096,
#ifdef DELTA_EMULATED_ASAN
  STACK_BYTES = 256 << 10,
#else
  STACK_BYTES = 64 << 10,
#endif
  SHARED_BYTES = 256 << 10, // most of a block's dynamic shared memory
  MOST_SITES = 1024,
  SANITIZERS = 31 // of a room, by which ThreadSanitizer knows its threads
};

typedef enum thread_state { READY, AT_BARRIER, AT_WARP, ENDED } thread_state_t;

typedef enum warp_kind { WARP_BARRIER, WARP_EXCHANGE, WARP_BALLOT } warp_kind_t;

typedef struct block_thread {
  delta_fiber_t fiber;
  delta_emulated_room_t *room;
  thread_state_t state;
  uint3 index;
  int site; // AT_BARRIER: which
  // AT_WARP: what the lane brings, and what it gets
  warp_kind_t kind;
  unsigned mask;
  uint64_t word;
  int source;
  uint64_t result;
} block_thread_t;

struct delta_emulated_room {
  delta_fiber_t outside;
  uint8_t *stacks, *shared; // mappings
  block_thread_t *threads;  // Owned
  uint32_t prepared;        // fibers that exist
  void *sanitizers[SANITIZERS];
  const delta_emulated_launch_t *launch;
  uint32_t count, current, alive, arrived;
  bool is_wrong;
  uint32_t barriers, warp_barriers[MOST_THREADS / LANES]; // that all have passed
  // Addresses that order is told by.
  char start, end, barrier_order[2], warp_order[MOST_THREADS / LANES][2];
};

__thread delta_emulated_place_t delta_emulated_place;
static __thread delta_emulated_room_t *own_room;

// ---- Sites

static pthread_mutex_t sites_lock = PTHREAD_MUTEX_INITIALIZER;
static delta_emulated_site_t sites[MOST_SITES];
static uint32_t site_count;
static int dropped_site; // from 1; 0: none
static delta_emulated_site_t dropped;

static bool is_same_site(const delta_emulated_site_t *a, const delta_emulated_site_t *b) {
  return a->file && a->line == b->line && a->number == b->number && strcmp(a->file, b->file) == 0;
}

// From 1; several statics, of templates, may be one place. 0: there are too many. Names stay as long as the program.
static int find_site(const delta_emulated_site_t *site) {
  int found = 0;
  delta_hidden_begin();
  pthread_mutex_lock(&sites_lock);
  for (uint32_t k = 0; k < site_count && !found; ++k) {
    if (is_same_site(&sites[k], site)) found = (int)k + 1;
  }
  // The name is in a module that may be closed.
  char *name = found || site_count == MOST_SITES ? NULL : strdup(site->file);
  if (name) {
    sites[site_count++] = (delta_emulated_site_t){.file = name, .line = site->line, .number = site->number};
    found = (int)site_count;
    if (is_same_site(&dropped, site)) dropped_site = found;
  }
  pthread_mutex_unlock(&sites_lock);
  delta_hidden_end();
  return found;
}

uint32_t delta_emulated_site_count(void) { return site_count; }

delta_emulated_site_t delta_emulated_site(uint32_t index) { return sites[index]; }

void delta_emulated_drop_barrier(const delta_emulated_site_t *site) {
  dropped = site ? *site : (delta_emulated_site_t){0};
  dropped_site = site ? find_site(site) : 0;
}

// ---- Switching

// The next thread that can go on, after `current`; count: none.
static uint32_t find_ready(const delta_emulated_room_t *room) {
  for (uint32_t k = 1; k <= room->count; ++k) {
    const uint32_t candidate = room->current + k < room->count ? room->current + k : room->current + k - room->count;
    if (room->threads[candidate].state == READY) return candidate;
  }
  return room->count;
}

// Lets another thread go on, or the room when none can.
static void give_way(block_thread_t *self) {
  delta_emulated_room_t *room = self->room;
  const uint32_t next = find_ready(room);
  if (next == room->count) {
    delta_fiber_switch(&self->fiber, &room->outside);
  } else if (&room->threads[next] != self) {
    room->current = next;
    delta_fiber_switch(&self->fiber, &room->threads[next].fiber);
  }
  delta_emulated_place.thread = self->index;
}

static void report_wrong(delta_emulated_room_t *room, const char *what) {
  const uint3 at = delta_emulated_place.block, thread = room->threads[room->current].index;
  if (!room->is_wrong) {
    delta_emulated_report("kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s", room->launch->name, at.x, at.y, at.z, thread.x,
                          thread.y, thread.z, what);
  }
  room->is_wrong = true;
}

// ---- The block's barrier

static void pass_barrier(delta_emulated_room_t *room) {
  int site = 0;
  for (uint32_t k = 0; k < room->count; ++k) {
    block_thread_t *thread = &room->threads[k];
    if (thread->state != AT_BARRIER) continue;
    if (site && thread->site != site) report_wrong(room, "threads of one block are at different barriers");
    site = thread->site;
    thread->state = READY;
  }
  room->arrived = 0;
  ++room->barriers;
}

void delta_emulated_barrier(int *site, const char *file, int line, int number) {
  delta_emulated_room_t *room = own_room;
  if (*site == 0) *site = find_site(&(delta_emulated_site_t){.file = file, .line = line, .number = number});
  if (*site) ++sites[*site - 1].visits;
  if (*site == dropped_site && *site) return;
  if (room->launch->is_free) {
    report_wrong(room, "a barrier in a kernel that was launched as free of them");
    return;
  }
  block_thread_t *self = &room->threads[room->current];
  const char *order = &room->barrier_order[room->barriers & 1];
  self->site = *site;
  self->state = AT_BARRIER;
  delta_order_release(order);
  if (++room->arrived == room->alive) {
    pass_barrier(room);
  } else {
    give_way(self);
  }
  delta_order_acquire(order);
}

// ---- Warps

static uint32_t first_of_warp(const block_thread_t *thread) { return (uint32_t)(thread - thread->room->threads) / LANES * LANES; }

// Whether all lanes of the mask that exist are at the same operation.
static bool is_complete(const block_thread_t *self) {
  delta_emulated_room_t *room = self->room;
  const uint32_t first = first_of_warp(self);
  for (uint32_t lane = 0; lane < LANES && first + lane < room->count; ++lane) {
    const block_thread_t *other = &room->threads[first + lane];
    if (!(self->mask >> lane & 1)) continue;
    if (other->state == ENDED) report_wrong(room, "a lane of the mask has left the kernel");
    if (other->state != AT_WARP || other->kind != self->kind || other->mask != self->mask) return false;
  }
  return true;
}

static void complete(const block_thread_t *last) {
  delta_emulated_room_t *room = last->room;
  const uint32_t first = first_of_warp(last);
  const unsigned mask = last->mask;
  uint64_t truths = 0;
  for (uint32_t lane = 0; lane < LANES && first + lane < room->count; ++lane) {
    if (mask >> lane & 1 && room->threads[first + lane].word) truths |= UINT64_C(1) << lane;
  }
  for (uint32_t lane = 0; lane < LANES && first + lane < room->count; ++lane) {
    if (!(mask >> lane & 1)) continue;
    block_thread_t *thread = &room->threads[first + lane];
    const uint32_t source = first + (uint32_t)thread->source % LANES;
    const bool is_there = source < room->count && mask >> (source - first) & 1;
    thread->result = thread->kind == WARP_BALLOT ? truths : is_there ? room->threads[source].word : UINT64_MAX;
    thread->state = READY;
  }
  ++room->warp_barriers[first / LANES];
}

static uint64_t meet_warp(warp_kind_t kind, unsigned mask, uint64_t word, int source) {
  delta_emulated_room_t *room = own_room;
  if (room->launch->is_free) {
    report_wrong(room, "an exchange between lanes in a kernel that was launched as free of them");
    return word;
  }
  block_thread_t *self = &room->threads[room->current];
  const uint32_t warp = first_of_warp(self) / LANES;
  const char *order = &room->warp_order[warp][room->warp_barriers[warp] & 1];
  if (!(mask >> (room->current % LANES) & 1)) report_wrong(room, "a lane outside its own mask");
  self->kind = kind;
  self->mask = mask;
  self->word = word;
  self->source = source;
  self->state = AT_WARP;
  if (kind == WARP_BARRIER) delta_order_release(order);
  if (is_complete(self)) {
    complete(self);
    self->state = READY;
  } else {
    give_way(self);
  }
  if (kind == WARP_BARRIER) delta_order_acquire(order);
  return self->result;
}

void delta_emulated_warp_barrier(unsigned mask) { meet_warp(WARP_BARRIER, mask, 0, 0); }

unsigned long long delta_emulated_exchange(unsigned mask, unsigned long long word, int source) {
  return meet_warp(WARP_EXCHANGE, mask, word, source);
}

unsigned delta_emulated_ballot(unsigned mask, int truth) { return (unsigned)meet_warp(WARP_BALLOT, mask, truth != 0, 0); }

void delta_emulated_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// The block's bytes end where a guard begins.
void *delta_emulated_dynamic_shared(void) {
  const delta_emulated_room_t *room = own_room;
  if (room->launch->is_free) return NULL;
  return room->shared + SHARED_BYTES - (room->launch->shared_bytes + 15) / 16 * 16;
}

// ---- A block

static void run_threads(void *argument) {
  block_thread_t *self = argument;
  for (;;) {
    delta_emulated_room_t *room = self->room;
    delta_order_acquire(&room->start);
    delta_emulated_place.thread = self->index;
    room->launch->run_thread(room->launch->self);
    delta_order_release(&room->end);
    self->state = ENDED;
    --room->alive;
    if (room->arrived && room->arrived == room->alive) pass_barrier(room);
    give_way(self);
  }
}

// Threads that commonly share data (the same lane of other warps, lane w and the first lane of warp w, a power of two apart) are different ones for ThreadSanitizer.
static void **sanitizer_of(delta_emulated_room_t *room, uint32_t thread) {
  return &room->sanitizers[(thread + 5 * (thread / LANES)) % SANITIZERS];
}

static void prepare_threads(delta_emulated_room_t *room, dim3 block) {
  room->count = room->alive = block.x * block.y * block.z;
  for (; room->prepared < room->count; ++room->prepared) {
    block_thread_t *thread = &room->threads[room->prepared];
    uint8_t *stack = room->stacks + (size_t)room->prepared * (STACK_BYTES + PAGE_BYTES) + PAGE_BYTES;
    mprotect(stack, STACK_BYTES, PROT_READ | PROT_WRITE);
    thread->room = room;
    void **sanitizer = sanitizer_of(room, room->prepared);
    if (!*sanitizer) *sanitizer = delta_fiber_sanitizer_create();
    delta_fiber_init(&thread->fiber, stack, STACK_BYTES, run_threads, thread, *sanitizer);
  }
  for (uint32_t k = 0; k < room->count; ++k) {
    room->threads[k].state = READY;
    room->threads[k].index = (uint3){k % block.x, k / block.x % block.y, k / block.x / block.y};
  }
}

// Threads that wait for ever are forgotten; the next block begins with new ones.
static void forget_threads(delta_emulated_room_t *room) {
  for (int k = 0; k < SANITIZERS; ++k) {
    if (room->sanitizers[k]) delta_fiber_sanitizer_destroy(room->sanitizers[k]);
    room->sanitizers[k] = NULL;
  }
  room->prepared = 0;
  room->arrived = 0;
}

static void run_fibers(delta_emulated_room_t *room) {
  delta_fiber_init_thread(&room->outside);
  prepare_threads(room, room->launch->block);
  memset(delta_emulated_dynamic_shared(), DELTA_EMULATED_FILL, room->launch->shared_bytes);
  delta_order_release(&room->start);
  room->current = room->count - 1;
  for (uint32_t next; (next = find_ready(room)) < room->count;) {
    room->current = next;
    delta_fiber_switch(&room->outside, &room->threads[next].fiber);
  }
  delta_order_acquire(&room->end);
  if (room->alive == 0) return;
  for (room->current = 0; room->threads[room->current].state == ENDED;) ++room->current;
  report_wrong(room, room->threads[room->current].state == AT_BARRIER ? "waits at a barrier to which not all threads come"
                                                                      : "waits for lanes of its warp that do not come");
  forget_threads(room);
}

bool delta_emulated_room_run(delta_emulated_room_t *room, const delta_emulated_launch_t *launch, uint64_t block) {
  const dim3 grid = launch->grid;
  own_room = room;
  room->launch = launch;
  room->is_wrong = false;
  delta_emulated_place.block_dim = launch->block;
  delta_emulated_place.grid_dim = grid;
  delta_emulated_place.block =
      (uint3){(unsigned)(block % grid.x), (unsigned)(block / grid.x % grid.y), (unsigned)(block / grid.x / grid.y)};
  if (launch->is_free) {
    room->current = 0;
    launch->run_block(launch->self);
  } else {
    run_fibers(room);
  }
  return !room->is_wrong;
}

// ---- Rooms

delta_emulated_room_t *delta_emulated_room_create(void) {
  delta_emulated_room_t *room = calloc(1, sizeof *room);
  if (!room) return NULL;
  const size_t stacks_bytes = (size_t)MOST_THREADS * (STACK_BYTES + PAGE_BYTES);
  room->threads = calloc(MOST_THREADS, sizeof *room->threads);
  room->stacks = mmap(NULL, stacks_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  room->shared = mmap(NULL, SHARED_BYTES + PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!room->threads || room->stacks == MAP_FAILED || room->shared == MAP_FAILED ||
      mprotect(room->shared, SHARED_BYTES, PROT_READ | PROT_WRITE) != 0) {
    if (room->stacks == MAP_FAILED) room->stacks = NULL;
    if (room->shared == MAP_FAILED) room->shared = NULL;
    delta_emulated_room_destroy(room);
    return NULL;
  }
  return room;
}

void delta_emulated_room_destroy(delta_emulated_room_t *room) {
  if (!room) return;
  forget_threads(room);
  if (room->stacks) munmap(room->stacks, (size_t)MOST_THREADS * (STACK_BYTES + PAGE_BYTES));
  if (room->shared) munmap(room->shared, SHARED_BYTES + PAGE_BYTES);
  free(room->threads);
  free(room);
}
