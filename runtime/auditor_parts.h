// What the files of the auditor share: auditor.c looks at values, auditor_space.c at the bytes that nobody owns, auditor_bytes.c reads and writes them through the device.
#ifndef DELTA_RUNTIME_AUDITOR_PARTS_H_
#define DELTA_RUNTIME_AUDITOR_PARTS_H_

#include "runtime/auditor.h"

enum { DELTA_AUDITOR_PIECE_BYTES = 64 << 10, DELTA_AUDITOR_PATTERN = 0xA5 };

// A value that has been seen: by problem tensor, or by state of the plan.
typedef struct delta_audited_value {
  uint64_t sum;
  uint32_t maker; // step of the schedule; DELTA_PROBLEM_NONE: it was there before the run
  bool is_known;
} delta_audited_value_t;

// The bytes between two neighbouring places where buffers begin or end.
typedef struct delta_audited_segment {
  size_t begin_bytes, end_bytes; // from where the program's own bytes begin
  bool is_occupied;              // by a buffer that may be in use at the step at hand
  bool has_pattern;
} delta_audited_segment_t;

// Where a buffer lies and when.
typedef struct delta_audited_buffer {
  uint32_t first_segment, end_segment;
  uint32_t writer;                  // DELTA_PROBLEM_NONE: it has its value before the first step
  uint32_t users[DELTA_LANE_COUNT]; // the last step of each lane that writes or reads it, plus one; 0: none
  bool outlives;                    // the last step
  size_t pattern_offset_bytes;      // in the buffer: behind the data there is the pattern
} delta_audited_buffer_t;

struct delta_auditor {
  delta_auditor_options_t options;
  delta_allocator_t allocator;
  delta_region_t region; // Owns the lists.
  uint8_t *piece, *pattern;
  size_t *data_bytes;            // by problem tensor: of its size
  uint32_t *state_of_tensor;     // by problem tensor: the plan's state that it is or becomes, or DELTA_PROBLEM_NONE
  delta_audited_value_t *values; // by problem tensor
  delta_audited_value_t *states; // by the plan's state: its value now
  delta_audited_buffer_t *buffers;
  delta_audited_segment_t *segments;
  uint32_t segment_count;
  uint32_t (*ended)[DELTA_LANE_COUNT]; // of delta_schedule_order_step
  uint64_t arena_bytes;                // of the run; 0: not known
};

// auditor_bytes.c. Offsets count from the beginning of the arena.
DELTA_MUST_USE delta_status_t delta_auditor_sum(delta_auditor_t *auditor, size_t offset_bytes, size_t size_bytes, uint64_t *out_sum);
// Of what lies in the tier below.
DELTA_MUST_USE delta_status_t delta_auditor_sum_below(delta_auditor_t *auditor, uint64_t offset_bytes, size_t size_bytes,
                                                      uint64_t *out_sum);
DELTA_MUST_USE delta_status_t delta_auditor_fill(delta_auditor_t *auditor, size_t offset_bytes, size_t size_bytes);
// The first byte without the pattern, at *out_offset_bytes; SIZE_MAX: all have it.
DELTA_MUST_USE delta_status_t delta_auditor_find_touched(delta_auditor_t *auditor, size_t offset_bytes, size_t size_bytes,
                                                         size_t *out_offset_bytes, uint8_t *out_found);
// "step 12, node 'conv_3'", or a copy's tensor.
enum { DELTA_AUDITOR_TEXT_BYTES = 256 };
const char *delta_auditor_step_text(const delta_auditor_t *auditor, uint32_t step, char buffer[DELTA_AUDITOR_TEXT_BYTES]);

// auditor_space.c
DELTA_MUST_USE delta_status_t delta_auditor_survey(delta_auditor_t *auditor); // once: where buffers lie, and when
DELTA_MUST_USE delta_status_t delta_auditor_begin_space(delta_auditor_t *auditor);
DELTA_MUST_USE delta_status_t delta_auditor_enter_space(delta_auditor_t *auditor, uint32_t step);
DELTA_MUST_USE delta_status_t delta_auditor_leave_space(delta_auditor_t *auditor, uint32_t step);

#endif // DELTA_RUNTIME_AUDITOR_PARTS_H_
