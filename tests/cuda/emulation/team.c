#include "tests/cuda/emulation/team.h"

#include <pthread.h>
#include <stdlib.h>

#include "tests/cuda/emulation/calls.h"

// Launches with fewer threads are not worth waking another.
#ifdef DELTA_EMULATED_TSAN
enum { LEAST_SHARED_THREADS = 0 };
#else
enum { LEAST_SHARED_THREADS = 8192 };
#endif

typedef struct member {
  delta_emulated_team_t *team;
  delta_emulated_room_t *room; // Owned; made by the first block
  pthread_t thread;
} member_t;

struct delta_emulated_team {
  uint32_t count;
  member_t *members; // Owned; the first is the thread that calls
  bool is_started;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  const delta_emulated_launch_t *launch;
  uint64_t launches, next_block, block_count;
  uint32_t working; // beside the first
  bool is_closing;
};

static void lock_team(delta_emulated_team_t *team) {
  delta_hidden_begin();
  pthread_mutex_lock(&team->lock);
}

static void unlock_team(delta_emulated_team_t *team) {
  pthread_mutex_unlock(&team->lock);
  delta_hidden_end();
}

static void run_block(member_t *member, const delta_emulated_launch_t *launch, uint64_t block) {
  if (!member->room) member->room = delta_emulated_room_create();
  if (!member->room) {
    delta_emulated_report("kernel %s: no memory for its threads", launch->name);
    delta_emulated_set_fault(cudaErrorLaunchOutOfResources);
  } else if (!delta_emulated_room_run(member->room, launch, block)) {
    delta_emulated_set_fault(cudaErrorLaunchFailure);
  }
}

static void run_shared_blocks(member_t *member) {
  delta_emulated_team_t *team = member->team;
  for (;;) {
    lock_team(team);
    const uint64_t block = team->next_block++, count = team->block_count;
    const delta_emulated_launch_t *launch = team->launch;
    unlock_team(team);
    if (block >= count) return;
    run_block(member, launch, block);
  }
}

static void *run_member(void *self) {
  member_t *member = self;
  delta_emulated_team_t *team = member->team;
  for (uint64_t launch = 1;; ++launch) {
    lock_team(team);
    while (team->launches < launch && !team->is_closing) pthread_cond_wait(&team->changed, &team->lock);
    const bool is_closing = team->launches < launch;
    unlock_team(team);
    if (is_closing) return NULL;
    delta_order_acquire(team);
    run_shared_blocks(member);
    delta_order_release(member);
    lock_team(team);
    --team->working;
    pthread_cond_broadcast(&team->changed);
    unlock_team(team);
  }
}

// Members that cannot be started are done without.
static void start_members(delta_emulated_team_t *team) {
  uint32_t started = 1;
  while (started < team->count && pthread_create(&team->members[started].thread, NULL, run_member, &team->members[started]) == 0) ++started;
  team->count = started;
  team->is_started = true;
}

void delta_emulated_team_run(delta_emulated_team_t *team, const delta_emulated_launch_t *launch) {
  const uint64_t blocks = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z;
  const uint64_t threads = blocks * launch->block.x * launch->block.y * launch->block.z;
  if (team->count == 1 || blocks < 2 || threads < LEAST_SHARED_THREADS) {
    for (uint64_t block = 0; block < blocks; ++block) run_block(&team->members[0], launch, block);
    return;
  }
  if (!team->is_started) start_members(team);
  delta_order_release(team);
  lock_team(team);
  team->launch = launch;
  team->next_block = 0;
  team->block_count = blocks;
  team->working = team->count - 1;
  ++team->launches;
  pthread_cond_broadcast(&team->changed);
  unlock_team(team);
  run_shared_blocks(&team->members[0]);
  lock_team(team);
  while (team->working) pthread_cond_wait(&team->changed, &team->lock);
  unlock_team(team);
  for (uint32_t k = 1; k < team->count; ++k) delta_order_acquire(&team->members[k]);
}

delta_emulated_team_t *delta_emulated_team_create(uint32_t members) {
  delta_emulated_team_t *team = calloc(1, sizeof *team);
  if (!team) return NULL;
  team->count = members ? members : 1;
  team->members = calloc(team->count, sizeof *team->members);
  if (!team->members) {
    free(team);
    return NULL;
  }
  for (uint32_t k = 0; k < team->count; ++k) team->members[k].team = team;
  pthread_mutex_init(&team->lock, NULL);
  pthread_cond_init(&team->changed, NULL);
  return team;
}

void delta_emulated_team_destroy(delta_emulated_team_t *team) {
  if (!team) return;
  lock_team(team);
  team->is_closing = true;
  pthread_cond_broadcast(&team->changed);
  unlock_team(team);
  for (uint32_t k = 1; k < team->count && team->is_started; ++k) pthread_join(team->members[k].thread, NULL);
  for (uint32_t k = 0; k < team->count; ++k) delta_emulated_room_destroy(team->members[k].room);
  pthread_cond_destroy(&team->changed);
  pthread_mutex_destroy(&team->lock);
  free(team->members);
  free(team);
}
