// Row moves: threads share the columns of units, so that each goes around all cycles with a piece of a unit aside.
#include "runtime/cpu/row.h"

#include <string.h>

#include "runtime/cpu/team.h"

enum { PIECE_BYTES = 16 << 10, LINE_BYTES = 64 };

static const uint32_t BEGINS = UINT32_C(1) << 31; // marks the first place of a cycle

// Lists the cycles of more than one unit; `sources` is used up.
static uint32_t list_cycles(uint32_t *sources, uint32_t count, uint32_t *places) {
  uint32_t listed = 0;
  for (uint32_t first = 0; first < count; ++first) {
    uint32_t mark = BEGINS;
    for (uint32_t at = first; sources[at] != at; mark = 0) {
      places[listed++] = at | mark;
      const uint32_t next = sources[at];
      sources[at] = at;
      at = next;
    }
  }
  return listed;
}

delta_status_t delta_row_moves_init(delta_row_moves_t *moves, const delta_graph_t *graph, const delta_node_t *node,
                                    delta_allocator_t allocator) {
  const delta_units_t units = delta_units_of(graph, node);
  const uint32_t count = (uint32_t)(units.lines * units.line_units);
  uint32_t *sources = NULL;
  *moves = (delta_row_moves_t){.unit_bytes = units.unit_bytes};
  if (units.lines == 1) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, count, &sources));
  delta_status_t status = DELTA_ALLOCATE(allocator, count, &moves->places);
  if (!status) {
    delta_units_sources(graph, node, sources);
    moves->count = list_cycles(sources, count, moves->places);
  }
  delta_release(allocator, sources);
  return status;
}

void delta_row_moves_deinit(delta_row_moves_t *moves, delta_allocator_t allocator) { delta_release(allocator, moves->places); }

typedef struct row_run {
  const delta_row_moves_t *moves;
  char *bytes;
  int64_t piece_bytes;
} row_run_t;

// Goes around all cycles with bytes [begin, begin + size) of every unit.
static void move_pieces(const row_run_t *run, int64_t begin, size_t size) {
  const delta_row_moves_t *moves = run->moves;
  char aside[PIECE_BYTES];
  char *to = NULL; // the piece that takes the next one
  for (uint32_t i = 0; i < moves->count; ++i) {
    char *piece = run->bytes + (int64_t)(moves->places[i] & ~BEGINS) * moves->unit_bytes + begin;
    if (to && !(moves->places[i] & BEGINS)) {
      memcpy(to, piece, size);
    } else {
      if (to) memcpy(to, aside, size);
      memcpy(aside, piece, size);
    }
    to = piece;
  }
  if (to) memcpy(to, aside, size);
}

static void move_columns(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const row_run_t *run = context;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t at = i * run->piece_bytes, left = run->moves->unit_bytes - at;
    move_pieces(run, at, (size_t)(left < run->piece_bytes ? left : run->piece_bytes));
  }
}

void delta_row_moves_run(const delta_row_moves_t *moves, void *bytes, int32_t threads) {
  if (moves->count == 0) return;
  int64_t piece_bytes = (moves->unit_bytes / threads + LINE_BYTES) / LINE_BYTES * LINE_BYTES;
  if (piece_bytes > PIECE_BYTES) piece_bytes = PIECE_BYTES;
  const row_run_t run = {moves, bytes, piece_bytes};
  delta_team_run(threads, (moves->unit_bytes + piece_bytes - 1) / piece_bytes, 2 * piece_bytes * moves->count, move_columns, &run);
}
