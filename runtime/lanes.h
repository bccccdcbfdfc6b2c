// Lanes: the two threads that copy between the arena and the tier below it while the calling thread computes, and the events between the three.
//
// A lane runs its copies in the order of the schedule, so one number a lane is event enough: the steps up to and including the last that has ended there. A copy
// starts when the steps it waits for have ended, however far compute is: a lane runs ahead as far as the plan's waits let it.
//
// Calls are made by the thread that owns the session. Nothing is allocated between begin and end, but for the message of a failure.
#ifndef DELTA_RUNTIME_LANES_H_
#define DELTA_RUNTIME_LANES_H_

#include <pthread.h>

#include "plans/schedule.h"
#include "runtime/keeper.h"
#include "runtime/tier.h"

typedef struct delta_lanes delta_lanes_t;

// A copy of a program, ready to run.
typedef struct delta_lane_copy {
  uint32_t step; // of the schedule
  void *memory;  // in the arena
  size_t size_bytes;
  const char *tensor_name;
  double start_seconds, end_seconds; // of the last run, on a monotonic clock; equal: it did not run
  bool is_done, has_failed;          // in this pass through the schedule
} delta_lane_copy_t;

typedef struct delta_lane_copies {
  delta_lane_copy_t *items; // in the order of the schedule
  uint32_t count;
} delta_lane_copies_t;

// What one run does. Borrowed until the run has ended.
typedef struct delta_lane_work {
  const delta_schedule_t *schedule;
  delta_lane_copies_t copies[DELTA_LANE_COUNT]; // none of COMPUTE
  delta_tier_t *tier;
  delta_keeper_t *keeper;        // what becomes of a tensor that cannot be copied below; NULL: the run fails
  pthread_mutex_t *keeper_mutex; // held while it keeps one, for whoever looks at free bytes; NULL: nobody does
  double patience_seconds;       // a copy that takes longer, and a second more for each MiB, will not end
} delta_lane_work_t;

// Of one run, by lane. Compute is busy when it does not wait; a copying lane waits while it has copies left.
typedef struct delta_lane_times {
  double busy_seconds, wait_seconds;
  double copied_bytes;
  uint32_t copies;
} delta_lane_times_t;

// What the bytes of a lane's copies took: how long it was busy without the starts of copies, which are not all of it.
static inline double delta_lane_byte_seconds(const delta_lane_times_t *times, double start_seconds) {
  const double byte_seconds = times->busy_seconds - times->copies * start_seconds, least_seconds = 0.1 * times->busy_seconds;
  return byte_seconds > least_seconds ? byte_seconds : least_seconds;
}

// How far a pass through a schedule has come: for each lane the steps up to and including its last that has ended; 0: none.
typedef struct delta_run_point {
  uint32_t ended[DELTA_LANE_COUNT];
} delta_run_point_t;

typedef enum delta_lane_wait {
  DELTA_LANE_READY,
  DELTA_LANE_LATE,  // it took too long, or still does
  DELTA_LANE_FAILED // a copy has failed or will not end
} delta_lane_wait_t;

// Starts the threads.
DELTA_MUST_USE delta_status_t delta_lanes_create(delta_allocator_t allocator, delta_lanes_t **out_lanes);
// Ends the threads. False when a copy has not come back: then the lanes, and whatever that copy reads or writes, must stay as they are. NULL is fine.
bool delta_lanes_destroy(delta_lanes_t *lanes);

// IO when a copy of an earlier run has not ended: what it reads or writes, and the work, must stay. OK for NULL.
DELTA_MUST_USE delta_status_t delta_lanes_check(delta_lanes_t *lanes);
// Begins a run, from a point of the schedule. IO as above.
DELTA_MUST_USE delta_status_t delta_lanes_begin(delta_lanes_t *lanes, const delta_lane_work_t *work, const delta_run_point_t *from);
// Waits, as the compute lane, for the steps that `step` of the schedule waits for; LATE: for late_seconds at least (0: never), and perhaps not all have ended. FAILED: end the run.
delta_lane_wait_t delta_lanes_wait(delta_lanes_t *lanes, uint32_t step, double late_seconds);
// Compute has ended a step.
void delta_lanes_signal(delta_lanes_t *lanes, uint32_t step);
// Ends a run: waits for the copies before step `limit` (that compute came to; 0: for those at hand alone); others are not started any more. The first failure of a copy names
// its step and its tensor.
DELTA_MUST_USE delta_status_t delta_lanes_end(delta_lanes_t *lanes, uint32_t limit, delta_lane_times_t out_times[DELTA_LANE_COUNT]);

// Marks the copies before a point as done and the others as not done.
void delta_lane_work_begin(delta_lane_work_t *work, const delta_run_point_t *from);
// Runs one copy on the calling thread. Steps before `earliest_step` have all ended.
DELTA_MUST_USE delta_status_t delta_lane_copy_run(const delta_lane_work_t *work, delta_lane_t lane, uint32_t earliest_step,
                                                  delta_lane_copy_t *copy);

#endif // DELTA_RUNTIME_LANES_H_
