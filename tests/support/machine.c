// The slow machine: no lifetimes and no intervals, only bytes that remember what they hold, and pairs of steps.
#include <stdlib.h>
#include <string.h>

#include "tests/support/planning.h"

enum { UNIT_BYTES = 64 };
#define HOLDS_NOTHING UINT32_MAX

typedef struct machine {
  const delta_schedule_t *schedule;
  const delta_problem_t *problem;
  uint32_t *arena; // by unit: the tensor it holds
  uint32_t *host;
  bool *before;     // [step * step_count + later]: has ended when `later` starts
  bool *has_run;    // by problem step
  bool *is_updated; // by state tensor
  bool *is_made;    // by tensor
  const char *why;
} machine_t;

typedef enum access_kind { ACCESS_NONE, ACCESS_READ, ACCESS_WRITE } access_kind_t;

static bool refuse(machine_t *machine, const char *why) {
  machine->why = why;
  return false;
}

static bool make_before(machine_t *machine) {
  const uint32_t count = machine->schedule->step_count;
  for (uint32_t s = 0; s < count; ++s) {
    const delta_schedule_step_t *step = &machine->schedule->steps[s];
    if ((unsigned)step->lane >= DELTA_LANE_COUNT) return refuse(machine, "a lane that does not exist");
    for (uint32_t earlier = 0; earlier < s; ++earlier) {
      bool direct = machine->schedule->steps[earlier].lane == step->lane;
      for (uint32_t w = 0; w < step->wait_count; ++w) direct |= step->waits[w] == earlier;
      if (!direct) continue;
      machine->before[earlier * count + s] = true;
      for (uint32_t first = 0; first < earlier; ++first) {
        if (machine->before[first * count + earlier]) machine->before[first * count + s] = true;
      }
    }
    for (uint32_t w = 0; w < step->wait_count; ++w) {
      if (step->waits[w] >= s) return refuse(machine, "a wait for what comes later");
    }
  }
  return true;
}

// How step s touches unit `unit` of the arena. Out-of-range buffers have been refused before.
static access_kind_t access_of(const machine_t *machine, uint32_t s, size_t unit) {
  const delta_schedule_step_t *step = &machine->schedule->steps[s];
  access_kind_t access = ACCESS_NONE;
  const uint32_t total = step->input_count + step->output_count + 1;
  for (uint32_t k = 0; k < total; ++k) {
    const bool reads = k < step->input_count;
    const uint32_t index = reads ? step->inputs[k] : k < total - 1 ? step->outputs[k - step->input_count] : step->workspace;
    if (index == DELTA_PROBLEM_NONE) continue;
    const delta_buffer_t *buffer = &machine->schedule->buffers[index];
    if (unit * UNIT_BYTES < buffer->offset_bytes || unit * UNIT_BYTES >= buffer->offset_bytes + buffer->size_bytes) continue;
    if (!reads || access == ACCESS_NONE) access = reads ? ACCESS_READ : ACCESS_WRITE;
  }
  return access;
}

static bool check_conflicts(machine_t *machine) {
  const uint32_t count = machine->schedule->step_count;
  for (size_t unit = 0; unit < machine->schedule->arena_bytes / UNIT_BYTES; ++unit) {
    for (uint32_t s = 0; s < count; ++s) {
      const access_kind_t here = access_of(machine, s, unit);
      if (here == ACCESS_NONE) continue;
      for (uint32_t later = s + 1; later < count; ++later) {
        if (machine->before[s * count + later]) continue;
        const access_kind_t there = access_of(machine, later, unit);
        if (there != ACCESS_NONE && (here == ACCESS_WRITE || there == ACCESS_WRITE)) return refuse(machine, "two lanes race for a unit");
      }
    }
  }
  return true;
}

static bool buffer_exists(const machine_t *machine, uint32_t index, uint32_t tensor) {
  if (index >= machine->schedule->buffer_count) return false;
  const delta_buffer_t *buffer = &machine->schedule->buffers[index];
  const uint64_t arena_bytes = machine->schedule->arena_bytes;
  if (buffer->tensor != tensor || buffer->offset_bytes % UNIT_BYTES != 0 || buffer->size_bytes % UNIT_BYTES != 0) return false;
  if (tensor != DELTA_PROBLEM_NONE && buffer->size_bytes != machine->problem->tensors[tensor].size_bytes) return false;
  return buffer->offset_bytes <= arena_bytes && buffer->size_bytes <= arena_bytes - buffer->offset_bytes;
}

static void fill(uint32_t *memory, uint64_t offset_bytes, uint64_t size_bytes, uint32_t tensor) {
  for (uint64_t u = 0; u < size_bytes / UNIT_BYTES; ++u) memory[offset_bytes / UNIT_BYTES + u] = tensor;
}

static bool holds(const uint32_t *memory, uint64_t offset_bytes, uint64_t size_bytes, uint32_t tensor) {
  for (uint64_t u = 0; u < size_bytes / UNIT_BYTES; ++u) {
    if (memory[offset_bytes / UNIT_BYTES + u] != tensor) return false;
  }
  return true;
}

static bool buffer_holds(const machine_t *machine, uint32_t index, uint32_t tensor) {
  const delta_buffer_t *buffer = &machine->schedule->buffers[index];
  return holds(machine->arena, buffer->offset_bytes, buffer->size_bytes, tensor);
}

static bool overlap(const delta_buffer_t *a, const delta_buffer_t *b) {
  return a->offset_bytes < b->offset_bytes + b->size_bytes && b->offset_bytes < a->offset_bytes + a->size_bytes;
}

static bool lie_in_row(const delta_schedule_t *schedule, const uint32_t *indices, uint32_t count, size_t at) {
  for (uint32_t k = 0; k < count; at += schedule->buffers[indices[k++]].size_bytes) {
    if (schedule->buffers[indices[k]].offset_bytes != at) return false;
  }
  return true;
}

// Buffers of one step may share bytes only in a row, or as a pair that the problem allows, exactly.
static bool may_share(const machine_t *machine, const delta_schedule_step_t *step, uint32_t input, uint32_t output) {
  const delta_buffer_t *from = &machine->schedule->buffers[input], *to = &machine->schedule->buffers[output];
  if (!overlap(from, to)) return true;
  if (machine->problem->steps[step->problem_step].flags & DELTA_STEP_IN_ROW) {
    const size_t at = machine->schedule->buffers[step->inputs[0]].offset_bytes;
    return lie_in_row(machine->schedule, step->inputs, step->input_count, at) &&
           lie_in_row(machine->schedule, step->outputs, step->output_count, at);
  }
  if (from->offset_bytes != to->offset_bytes || from->size_bytes != to->size_bytes) return false;
  const delta_problem_step_t *problem_step = &machine->problem->steps[step->problem_step];
  for (uint32_t k = 0; k < problem_step->inplace_count; ++k) {
    if (problem_step->inplace[k].input == from->tensor && problem_step->inplace[k].output == to->tensor) return true;
  }
  return false;
}

static bool step_shares_nothing(const machine_t *machine, const delta_schedule_step_t *step) {
  const delta_buffer_t *buffers = machine->schedule->buffers;
  for (uint32_t o = 0; o < step->output_count; ++o) {
    if (step->outputs[o] == DELTA_PROBLEM_NONE) continue;
    for (uint32_t i = 0; i < step->input_count; ++i) {
      if (step->inputs[i] != DELTA_PROBLEM_NONE && !may_share(machine, step, step->inputs[i], step->outputs[o])) return false;
    }
    for (uint32_t other = 0; other < o; ++other) {
      if (step->outputs[other] != DELTA_PROBLEM_NONE && overlap(&buffers[step->outputs[o]], &buffers[step->outputs[other]])) return false;
    }
    if (step->workspace != DELTA_PROBLEM_NONE && overlap(&buffers[step->outputs[o]], &buffers[step->workspace])) return false;
  }
  for (uint32_t i = 0; i < step->input_count && step->workspace != DELTA_PROBLEM_NONE; ++i) {
    if (step->inputs[i] != DELTA_PROBLEM_NONE && overlap(&buffers[step->inputs[i]], &buffers[step->workspace])) return false;
  }
  return true;
}

static bool read_inputs(machine_t *machine, const delta_schedule_step_t *step, const delta_problem_step_t *problem_step) {
  for (uint32_t k = 0; k < step->input_count; ++k) {
    const uint32_t tensor = problem_step->inputs[k];
    const delta_problem_tensor_t *entry = &machine->problem->tensors[tensor];
    if (delta_problem_tensor_is_state(entry)) {
      if (step->inputs[k] != DELTA_PROBLEM_NONE) return refuse(machine, "a state in a buffer");
      if ((entry->flags & DELTA_TENSOR_STATE) ? machine->is_updated[tensor] : !machine->is_made[tensor]) {
        return refuse(machine, "a state of the wrong time");
      }
    } else if (!buffer_exists(machine, step->inputs[k], tensor) || !buffer_holds(machine, step->inputs[k], tensor)) {
      return refuse(machine, "an input that is not there");
    }
  }
  return true;
}

static bool write_outputs(machine_t *machine, const delta_schedule_step_t *step, const delta_problem_step_t *problem_step) {
  for (uint32_t k = 0; k < step->output_count; ++k) {
    const uint32_t tensor = problem_step->outputs[k], state = machine->problem->tensors[tensor].becomes_state;
    machine->is_made[tensor] = true;
    if (delta_problem_tensor_is_state(&machine->problem->tensors[tensor])) {
      if (step->outputs[k] != DELTA_PROBLEM_NONE) return refuse(machine, "a state's new value in a buffer");
      machine->is_updated[state] = true;
    } else if (!buffer_exists(machine, step->outputs[k], tensor)) {
      return refuse(machine, "an output without a buffer");
    }
  }
  return true;
}

static bool run(machine_t *machine, const delta_schedule_step_t *step) {
  if (step->problem_step >= machine->problem->step_count) return refuse(machine, "no such step");
  const delta_problem_step_t *problem_step = &machine->problem->steps[step->problem_step];
  if (step->input_count != problem_step->input_count || step->output_count != problem_step->output_count) {
    return refuse(machine, "other numbers of inputs or outputs");
  }
  if (machine->has_run[step->problem_step] && !(problem_step->flags & DELTA_STEP_PURE)) return refuse(machine, "an impure step again");
  machine->has_run[step->problem_step] = true;
  if ((problem_step->workspace_bytes > 0) != (step->workspace != DELTA_PROBLEM_NONE)) return refuse(machine, "a workspace too many or few");
  if (step->workspace != DELTA_PROBLEM_NONE && (!buffer_exists(machine, step->workspace, DELTA_PROBLEM_NONE) ||
                                                machine->schedule->buffers[step->workspace].size_bytes != problem_step->workspace_bytes)) {
    return refuse(machine, "a wrong workspace");
  }
  if (!read_inputs(machine, step, problem_step) || !write_outputs(machine, step, problem_step)) return false;
  if (!step_shares_nothing(machine, step)) return refuse(machine, "buffers of one step overlap");
  if (step->workspace != DELTA_PROBLEM_NONE) {
    const delta_buffer_t *workspace = &machine->schedule->buffers[step->workspace];
    fill(machine->arena, workspace->offset_bytes, workspace->size_bytes, HOLDS_NOTHING);
  }
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (step->outputs[k] == DELTA_PROBLEM_NONE) continue;
    const delta_buffer_t *buffer = &machine->schedule->buffers[step->outputs[k]];
    fill(machine->arena, buffer->offset_bytes, buffer->size_bytes, buffer->tensor);
  }
  return true;
}

static bool copy(machine_t *machine, const delta_schedule_step_t *step) {
  const bool is_out = step->kind == DELTA_STEP_SWAP_OUT;
  if (step->input_count != is_out || step->output_count != !is_out || step->workspace != DELTA_PROBLEM_NONE)
    return refuse(machine, "a copy of other than one");
  const uint32_t index = is_out ? step->inputs[0] : step->outputs[0];
  if (index >= machine->schedule->buffer_count) return refuse(machine, "a copy of nothing");
  const delta_buffer_t *buffer = &machine->schedule->buffers[index];
  if (buffer->tensor >= machine->problem->tensor_count || !buffer_exists(machine, index, buffer->tensor))
    return refuse(machine, "a copy of no tensor");
  if (step->host_offset_bytes % UNIT_BYTES != 0 || step->host_offset_bytes > machine->schedule->host_bytes ||
      buffer->size_bytes > machine->schedule->host_bytes - step->host_offset_bytes) {
    return refuse(machine, "a copy beyond the host bytes");
  }
  if (is_out) {
    if (!buffer_holds(machine, index, buffer->tensor)) return refuse(machine, "a copy out of what is not there");
    fill(machine->host, step->host_offset_bytes, buffer->size_bytes, buffer->tensor);
    return true;
  }
  if (!holds(machine->host, step->host_offset_bytes, buffer->size_bytes, buffer->tensor))
    return refuse(machine, "a copy in of what is not there");
  fill(machine->arena, buffer->offset_bytes, buffer->size_bytes, buffer->tensor);
  return true;
}

// Copies that touch the same host bytes, one of them writing, must be in a certain order.
static bool check_host_conflicts(machine_t *machine) {
  const delta_schedule_t *schedule = machine->schedule;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    for (uint32_t later = s + 1; later < schedule->step_count; ++later) {
      const delta_schedule_step_t *a = &schedule->steps[s], *b = &schedule->steps[later];
      if (a->kind == DELTA_STEP_RUN || b->kind == DELTA_STEP_RUN || machine->before[s * schedule->step_count + later]) continue;
      if (a->kind == DELTA_STEP_SWAP_IN && b->kind == DELTA_STEP_SWAP_IN) continue;
      const size_t a_bytes = schedule->buffers[a->kind == DELTA_STEP_SWAP_IN ? a->outputs[0] : a->inputs[0]].size_bytes;
      const size_t b_bytes = schedule->buffers[b->kind == DELTA_STEP_SWAP_IN ? b->outputs[0] : b->inputs[0]].size_bytes;
      if (a->host_offset_bytes < b->host_offset_bytes + b_bytes && b->host_offset_bytes < a->host_offset_bytes + a_bytes) {
        return refuse(machine, "two lanes race for host bytes");
      }
    }
  }
  return true;
}

static bool place_inputs(machine_t *machine) {
  for (uint32_t t = 0; t < machine->problem->tensor_count; ++t) {
    if (!(machine->problem->tensors[t].flags & DELTA_TENSOR_INPUT)) continue;
    bool found = false;
    for (uint32_t b = 0; b < machine->schedule->buffer_count; ++b) {
      const delta_buffer_t *buffer = &machine->schedule->buffers[b];
      bool is_written = false;
      for (uint32_t s = 0; s < machine->schedule->step_count; ++s) {
        const delta_schedule_step_t *step = &machine->schedule->steps[s];
        for (uint32_t k = 0; k < step->output_count; ++k) is_written |= step->outputs[k] == b;
      }
      if (buffer->tensor != t || is_written) continue;
      if (found || !buffer_exists(machine, b, t)) return refuse(machine, "an input with two buffers, or one outside");
      found = true;
      fill(machine->arena, buffer->offset_bytes, buffer->size_bytes, t);
    }
    if (!found) return refuse(machine, "an input without a buffer");
  }
  return true;
}

static bool outputs_are_there(machine_t *machine) {
  for (uint32_t t = 0; t < machine->problem->tensor_count; ++t) {
    const delta_problem_tensor_t *tensor = &machine->problem->tensors[t];
    if (!(tensor->flags & DELTA_TENSOR_OUTPUT) || delta_problem_tensor_is_state(tensor)) continue;
    bool found = false;
    for (uint32_t b = 0; b < machine->schedule->buffer_count; ++b) {
      const delta_buffer_t *buffer = &machine->schedule->buffers[b];
      if (buffer->tensor != t || buffer->last_step + 1 != machine->schedule->step_count) continue;
      if (!buffer_holds(machine, b, t)) return refuse(machine, "an output overwritten");
      found = true;
    }
    if (!found) return refuse(machine, "an output lost");
  }
  return true;
}

static bool peak_is_right(machine_t *machine) {
  const delta_schedule_t *schedule = machine->schedule;
  uint64_t peak_bytes = 0, end_bytes = 0;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    uint64_t live_bytes = 0;
    for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
      const delta_buffer_t *buffer = &schedule->buffers[b];
      if (buffer->first_step > s || buffer->last_step < s) continue;
      const bool shared = buffer->inplace_of != DELTA_PROBLEM_NONE && buffer->first_step == s;
      if (!shared) live_bytes += buffer->size_bytes;
    }
    if (live_bytes > peak_bytes) peak_bytes = live_bytes;
  }
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const uint64_t end = (uint64_t)schedule->buffers[b].offset_bytes + schedule->buffers[b].size_bytes;
    if (end > end_bytes) end_bytes = end;
  }
  if (peak_bytes != schedule->peak_bytes || end_bytes != schedule->arena_bytes) return refuse(machine, "a wrong peak or arena");
  return true;
}

static void move_states_in(machine_t *machine) {
  for (uint32_t t = 0; t < machine->problem->tensor_count; ++t) {
    const delta_problem_tensor_t *tensor = &machine->problem->tensors[t];
    if (!(tensor->flags & DELTA_TENSOR_STATE) || !(tensor->flags & DELTA_TENSOR_BELOW)) continue;
    fill(machine->host, tensor->home_offset_bytes, tensor->size_bytes, t);
  }
}

// Every home has the state's new value, or the old one where there is no new.
static bool states_are_at_home(const machine_t *machine) {
  for (uint32_t t = 0; t < machine->problem->tensor_count; ++t) {
    const delta_problem_tensor_t *tensor = &machine->problem->tensors[t];
    if (!(tensor->flags & DELTA_TENSOR_STATE) || !(tensor->flags & DELTA_TENSOR_BELOW)) continue;
    uint32_t last = t;
    for (uint32_t n = 0; n < machine->problem->tensor_count; ++n) last = machine->problem->tensors[n].becomes_state == t ? n : last;
    if (!holds(machine->host, tensor->home_offset_bytes, tensor->size_bytes, last)) return false;
  }
  return true;
}

static bool judge(machine_t *machine) {
  const delta_schedule_t *schedule = machine->schedule;
  if (!make_before(machine) || !place_inputs(machine)) return false;
  move_states_in(machine);
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    if (step->kind == DELTA_STEP_RUN ? !run(machine, step) : !copy(machine, step)) return false;
  }
  for (uint32_t p = 0; p < machine->problem->step_count; ++p) {
    if (!machine->has_run[p]) return refuse(machine, "a step that never runs");
  }
  if (!states_are_at_home(machine)) return refuse(machine, "a state that is not at home");
  return check_conflicts(machine) && check_host_conflicts(machine) && outputs_are_there(machine) && peak_is_right(machine);
}

bool delta_test_machine_accepts(const delta_schedule_t *schedule, const delta_problem_t *problem, const char **out_why) {
  machine_t machine = {.schedule = schedule, .problem = problem, .why = ""};
  const size_t step_count = schedule->step_count;
  machine.arena = malloc((schedule->arena_bytes / UNIT_BYTES + 1) * sizeof *machine.arena);
  machine.host = malloc((schedule->host_bytes / UNIT_BYTES + 1) * sizeof *machine.host);
  machine.before = calloc(step_count * step_count + 1, 1);
  machine.has_run = calloc(problem->step_count + 1, 1);
  machine.is_updated = calloc(problem->tensor_count + 1, 1);
  machine.is_made = calloc(problem->tensor_count + 1, 1);
  memset(machine.arena, 0xFF, (schedule->arena_bytes / UNIT_BYTES + 1) * sizeof *machine.arena);
  memset(machine.host, 0xFF, (schedule->host_bytes / UNIT_BYTES + 1) * sizeof *machine.host);
  const bool accepted = judge(&machine);
  free(machine.arena);
  free(machine.host);
  free(machine.before);
  free(machine.has_run);
  free(machine.is_updated);
  free(machine.is_made);
  *out_why = machine.why;
  return accepted;
}
