// Profiles: keys, files, and the choice of layouts that follows from them.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "onnx/graph/emit.h"
#include "runtime/layouts.h"
#include "runtime/select.h"
#include "tests/support/model_file.h"
#include "tests/support/planning.h"

#define SHAPE(...) ((delta_shape_t){.rank = (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .dims = {__VA_ARGS__}})

static delta_test_folder_t folder;
static delta_device_t *device;
static delta_profile_t *profile;
static char path[DELTA_TEST_PATH_BYTES];

static void setup(void) {
  delta_test_folder_make(&folder);
  delta_test_folder_path(&folder, "profile.json", path);
  delta_test_must(delta_device_open("cpu", &(delta_device_options_t){.threads = 1}, delta_allocator_system(), &device));
  delta_test_must(delta_profile_create(device, delta_allocator_system(), &profile));
}

static void teardown(void) {
  delta_profile_free(profile);
  delta_device_close(device);
  delta_test_folder_remove(&folder);
}

TestSuite(profile, .init = setup, .fini = teardown);

static void set(const char *key, const char *kernel, double seconds) {
  delta_test_must(delta_profile_set(profile, &(delta_profile_entry_t){.key = key, .kernel = kernel, .seconds = seconds}));
}

// The profile's file with the first `from` replaced by `to`, or the whole by `to` when `from` is NULL.
static void edit_file(const char *from, const char *to) {
  char *text = NULL;
  size_t size_bytes;
  delta_test_must(delta_profile_write(profile, path));
  delta_test_must(delta_file_read_all(path, 1 << 20, delta_allocator_system(), &text, &size_bytes));
  const char *place = from ? strstr(text, from) : text;
  cr_assert(place, "%s is not in the file", from);
  FILE *file = fopen(path, "w");
  fprintf(file, "%.*s%s%s", (int)(place - text), text, to, from ? place + strlen(from) : "");
  fclose(file);
  delta_release(delta_allocator_system(), text);
}

Test(profile, what_is_written_is_read) {
  set("conv/1", "fast", 0.25);
  set("conv/2", "fast", 1e-7);
  set("conv/1", "plain", 2);
  set("conv/1", "fast", 0.5);
  delta_test_must(delta_profile_write(profile, path));
  delta_profile_t *other = NULL;
  delta_test_must(delta_profile_create(device, delta_allocator_system(), &other));
  delta_test_must(delta_profile_read(other, path, DELTA_PROFILE_FORGIVING));
  cr_expect_eq(delta_profile_find(other, "conv/1", "fast")->seconds, 0.5);
  cr_expect_eq(delta_profile_find(other, "conv/1", "plain")->seconds, 2);
  cr_expect_eq(delta_profile_find(other, "conv/2", "fast")->seconds, 1e-7);
  cr_expect_not(delta_profile_find(other, "conv/2", "plain"));
  cr_expect_not(delta_profile_find(other, "conv/3", "fast"));
  cr_expect_not(delta_profile_find(NULL, "conv/1", "fast"));
  delta_profile_free(other);
}

Test(profile, broken_entries_are_left_out) {
  static const char *const broken[] = {"-1", "0", "null", "\"fast\"", "[]", "true"};
  set("conv/1", "fast", 0.25);
  set("conv/2", "fast", 0.75);
  for (size_t i = 0; i < sizeof broken / sizeof *broken; ++i) {
    delta_profile_t *other = NULL;
    edit_file("0.25", broken[i]);
    delta_test_must(delta_profile_create(device, delta_allocator_system(), &other));
    delta_test_must(delta_profile_read(other, path, DELTA_PROFILE_FORGIVING));
    cr_expect_not(delta_profile_find(other, "conv/1", "fast"), "%s", broken[i]);
    cr_expect(delta_profile_find(other, "conv/2", "fast"), "%s", broken[i]);
    delta_profile_free(other);
  }
}

Test(profile, foreign_files_are_refused) {
  const struct {
    const char *from, *to, *part;
    delta_status_code_t code;
  } cases[] = {
      {"\"delta profile\"", "\"delta plan\"", "format", DELTA_STATUS_MALFORMED},
      {"\"version\": 3", "\"version\": 2", "version", DELTA_STATUS_MALFORMED},
      {"\"threads\": 1", "\"threads\": 3", "--threads 3", DELTA_STATUS_MISMATCH},
      {"\"device\": \"cpu\"", "\"device\": \"tpu\"", "tpu", DELTA_STATUS_MISMATCH},
      {"\"instruction_set\": \"", "\"instruction_set\": \"x", "instruction_set", DELTA_STATUS_MISMATCH},
      {"\"libraries\": \"", "\"libraries\": \"x", "libraries", DELTA_STATUS_MISMATCH},
      {"\"processor\": \"", "\"processor\": \"x", "processor", DELTA_STATUS_MISMATCH},
      {"\"kernels\": {", "\"kernels\": [{", path, DELTA_STATUS_MALFORMED},
      {NULL, "", path, DELTA_STATUS_MALFORMED},
      {NULL, "{}", "format", DELTA_STATUS_MALFORMED},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    edit_file(cases[i].from, cases[i].to);
    delta_status_t status = delta_profile_read(profile, path, DELTA_PROFILE_STRICT);
    cr_expect_eq(delta_status_code(status), cases[i].code, "case %zu: %s", i, delta_status_message(status));
    cr_expect(strstr(delta_status_message(status), cases[i].part), "case %zu: %s", i, delta_status_message(status));
    delta_status_free(status);
  }
}

// Two convolutions, one behind the other.
static delta_graph_t *make_graph(void) {
  static const delta_window_t window = {
      .spatial = 2, .kernel = {3, 3}, .strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
  const delta_conv_attrs_t attrs = {.window = window, .group = 1, .data_spatial = {6, 6}};
  const delta_shape_t x_shape = SHAPE(2, 16, 6, 6), w_shape = SHAPE(16, 16, 3, 3);
  delta_graph_t *graph = NULL;
  delta_emit_t emit;
  delta_tensor_id_t x, w;
  delta_test_must(delta_graph_create(delta_allocator_system(), &graph));
  delta_emit_init(&emit, graph);
  emit.name = "node";
  delta_test_must(delta_graph_add_input(graph, "x", DELTA_DTYPE_FLOAT32, &x_shape, &x));
  delta_test_must(delta_graph_add_input(graph, "w", DELTA_DTYPE_FLOAT32, &w_shape, &w));
  const delta_tensor_id_t first = DELTA_EMIT(&emit, CONV, attrs, x, w), second = DELTA_EMIT(&emit, CONV, attrs, first, w);
  delta_test_must(delta_emit_finish(&emit));
  delta_test_must(delta_graph_add_output(graph, "y", second));
  return graph;
}

// Gives the convolutions of a layout a time, and the conversions to and from it another.
static void set_costs(delta_layout_t layout, double conv_seconds, double conversion_seconds) {
  delta_graph_t *graph = make_graph(), *laid = NULL;
  delta_layout_regions_t regions;
  char key[DELTA_PROFILE_KEY_BYTES];
  delta_test_must(delta_layout_regions_init(graph, delta_allocator_system(), &regions));
  delta_test_must(delta_graph_relayout(graph, &regions, &layout, delta_allocator_system(), &laid, NULL));
  for (size_t i = 0; i < laid->nodes.count; ++i) {
    delta_profile_key(laid, &laid->nodes.items[i], key);
    set(key, "fast", laid->nodes.items[i].op == DELTA_CORE_CONV ? conv_seconds : conversion_seconds);
  }
  delta_layout_regions_deinit(&regions);
  delta_graph_free(laid);
  delta_graph_free(graph);
}

static delta_layout_t choose(void) {
  const delta_profiler_options_t options = {.device = device, .path = path, .only_read = true};
  delta_profiler_t *profiler = NULL;
  delta_graph_t *graph = make_graph();
  delta_layout_t *layouts = NULL;
  uint32_t count = 0;
  delta_test_must(delta_profiler_create(&options, delta_allocator_system(), &profiler));
  delta_test_must(delta_layouts_apply(device, &(delta_layout_source_t){0}, profiler, delta_allocator_system(), &graph, &layouts, &count));
  cr_assert_eq(count, 1);
  const delta_layout_t layout = layouts[0];
  delta_release(delta_allocator_system(), layouts);
  delta_graph_free(graph);
  delta_profiler_destroy(profiler);
  return layout;
}

// The whole region counts, conversions included; equal profiles choose equally.
Test(profile, the_fastest_layout_is_chosen) {
  const struct {
    double blocked, last, plain, conversion;
    delta_layout_t wanted; // BLOCKED_8 stands for either size of blocks
  } cases[] = {
      {1, 2, 3, 0.1, DELTA_LAYOUT_BLOCKED_8},
      {2, 1, 3, 0.1, DELTA_LAYOUT_CHANNELS_LAST},
      {2, 2.5, 1, 0.1, DELTA_LAYOUT_PLAIN},
      {1, 1, 1.5, 1, DELTA_LAYOUT_PLAIN},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    set_costs(DELTA_LAYOUT_BLOCKED_8, cases[i].blocked, cases[i].conversion);
    set_costs(DELTA_LAYOUT_BLOCKED_16, cases[i].blocked, cases[i].conversion);
    set_costs(DELTA_LAYOUT_CHANNELS_LAST, cases[i].last, cases[i].conversion);
    set_costs(DELTA_LAYOUT_PLAIN, cases[i].plain, cases[i].conversion);
    delta_test_must(delta_profile_write(profile, path));
    delta_layout_t chosen = choose();
    cr_expect_eq(choose(), chosen);
    if (chosen == DELTA_LAYOUT_BLOCKED_16) chosen = DELTA_LAYOUT_BLOCKED_8;
    cr_expect_eq(chosen, cases[i].wanted, "case %zu: %s", i, delta_layout_name(chosen));
  }
}

// The first kernel within the rule of workspaces, or a later one that is better.
Test(profile, the_best_kernel) {
  enum { MIB = 1 << 20, MOST_BYTES = 8 * MIB };
  static const struct {
    delta_profile_entry_t entries[3];
    const char *wanted; // NULL: none
  } cases[] = {
      {{{0}}, NULL},
      {{{"", "a", 2, 0, 0}}, "a"},
      {{{"", "a", 2, 0, 0}, {"", "b", 1, 0, 0}}, "b"},
      {{{"", "a", 1, 0, 0}, {"", "b", 2, 0, 0}}, "a"},
      {{{"", "a", 1, 0, 0}, {"", "b", 0.99, 0, 0}}, "a"},
      // What does not fit.
      {{{"", "a", 1, 0, 0}, {"", "b", 0.5, 9 * MIB, 0}, {"", "c", 0.9, MIB, 0}}, "c"},
      {{{"", "a", 2, 9 * MIB, 0}, {"", "b", 1, 10 * MIB, 0}}, "a"},
      {{{"", "a", 1, 9 * MIB, 0}, {"", "b", 3, 0, 0}}, "b"},
      // What is worth its memory.
      {{{"", "a", 1, 0, 0}, {"", "b", 0.9, 4 * MIB, 0}}, "a"},
      {{{"", "a", 1, 0, 0}, {"", "b", 0.8, 4 * MIB, 0}}, "b"},
      {{{"", "a", 1, 4 * MIB, 0}, {"", "b", 1.1, 0, 0}}, "b"},
      {{{"", "a", 1, 4 * MIB, 0}, {"", "b", 1.3, 0, 0}}, "a"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char key[32];
    snprintf(key, sizeof key, "node/%zu", i);
    for (size_t k = 0; k < 3 && cases[i].entries[k].kernel; ++k) {
      delta_profile_entry_t entry = cases[i].entries[k];
      entry.key = key;
      delta_test_must(delta_profile_set(profile, &entry));
    }
    const delta_profile_entry_t *best = delta_profile_best(profile, key, MOST_BYTES);
    cr_expect(cases[i].wanted ? best && strcmp(best->kernel, cases[i].wanted) == 0 : !best, "case %zu: %s", i,
              best ? best->kernel : "none");
  }
}

static delta_selection_t *select_for(const delta_graph_t *graph, const delta_kernel_source_t *source) {
  const delta_select_options_t options = {
      .device = device, .graph = graph, .profile = profile, .source = source ? *source : (delta_kernel_source_t){0}};
  delta_selection_t *selection = NULL;
  delta_test_must(delta_select(&options, delta_allocator_system(), &selection));
  return selection;
}

// The fastest that was measured runs a node, in equal profiles equally; without costs the first that does not refuse; what a plan names in any case.
Test(profile, kernels_are_chosen) {
  delta_graph_t *graph = make_graph();
  char key[DELTA_PROFILE_KEY_BYTES];
  delta_profile_key(graph, &graph->nodes.items[0], key);
  delta_selection_t *first = select_for(graph, NULL);
  cr_assert_str_eq(first->names[0], "onednn_blocked");
  set(key, "onednn_blocked", 0.5);
  set(key, "onednn", 0.25);
  delta_selection_t *fast = select_for(graph, NULL), *again = select_for(graph, NULL);
  cr_expect_str_eq(fast->names[0], "onednn");
  cr_expect_eq(fast->costs[0].seconds, 0.25);
  cr_expect_str_eq(again->names[0], "onednn");
  const char *const names[] = {"onednn_blocked", "reference"};
  delta_selection_t *planned = select_for(graph, &(delta_kernel_source_t){.is_given = true, .names = names, .count = 2});
  cr_expect_str_eq(planned->names[0], "onednn_blocked");
  cr_expect_eq(planned->costs[0].seconds, 0.5);
  cr_expect_str_eq(planned->names[1], "reference");
  delta_selection_t *like = select_for(graph, &(delta_kernel_source_t){.like_graph = graph, .like = planned});
  cr_expect_str_eq(like->names[1], "reference");
  delta_selection_t *const all[] = {first, fast, again, planned, like};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) delta_selection_free(all[i]);
  delta_graph_free(graph);
}

// A plan's kernel that is not there, or not for this node, is named.
Test(profile, planned_kernels_are_refused_by_name) {
  static const struct {
    const char *names[3];
    uint32_t count;
    const char *part;
  } cases[] = {
      {{"onednn_blocked", "cudnn"}, 2, "'cudnn'"},
      {{"onednn_matmul", "onednn"}, 2, "'onednn_matmul', which cannot run it here"},
      {{"onednn"}, 1, "gives 1 nodes a kernel, the graph has 2"},
      {{NULL}, 0, "gives 0 nodes a kernel, the graph has 2"},
      {{"onednn", "onednn", "onednn"}, 3, "gives 3 nodes a kernel"},
  };
  delta_graph_t *graph = make_graph();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const delta_select_options_t options = {
        .device = device, .graph = graph, .source = {.is_given = true, .names = cases[i].names, .count = cases[i].count}};
    delta_selection_t *selection = NULL;
    delta_status_t status = delta_select(&options, delta_allocator_system(), &selection);
    cr_expect_eq(delta_status_code(status), DELTA_STATUS_MISMATCH, "case %zu: %s", i, delta_status_message(status));
    cr_expect(status && strstr(delta_status_message(status), cases[i].part), "case %zu: %s", i, delta_status_message(status));
    delta_status_free(status);
    delta_selection_free(selection);
  }
  delta_graph_free(graph);
}

static uint32_t reports;
static void on_measured(void *self, uint32_t done, uint32_t total) {
  (void)self;
  cr_expect(done <= total);
  ++reports;
}

// Everything is measured once, and found again in the cache.
Test(profile, measured_once) {
  setenv("XDG_CACHE_HOME", folder.path, 1);
  const delta_profiler_options_t options = {.device = device, .progress = on_measured};
  delta_graph_t *graph = make_graph();
  char first_key[DELTA_PROFILE_KEY_BYTES];
  delta_profile_key(graph, &graph->nodes.items[0], first_key);
  for (int round = 0; round < 2; ++round) {
    delta_profiler_t *profiler = NULL;
    delta_test_must(delta_profiler_create(&options, delta_allocator_system(), &profiler));
    reports = 0;
    delta_test_must(delta_profiler_measure(profiler, (const delta_graph_t *const *)&graph, 1));
    cr_expect_eq(reports > 0, round == 0, "round %d: %u reports", round, reports);
    const delta_profile_entry_t *best = delta_profile_best(delta_profiler_profile(profiler), first_key, SIZE_MAX);
    cr_expect(best && best->seconds > 0);
    delta_profiler_keep(profiler);
    delta_profiler_destroy(profiler);
  }
  delta_graph_free(graph);
}

static void on_line(void *self, delta_log_level_t level, const char *line) {
  (void)level;
  snprintf(self, 256, "%s", line);
}

// When time is up the rest is left out, and said; the roofline stands in.
Test(profile, measuring_ends) {
  setenv("XDG_CACHE_HOME", folder.path, 1);
  char line[256] = "";
  const delta_profiler_options_t options = {
      .device = device, .most_seconds = 1e-9, .progress = on_measured, .log = {.self = line, .write = on_line}};
  delta_graph_t *graph = make_graph();
  delta_profiler_t *profiler = NULL;
  delta_test_must(delta_profiler_create(&options, delta_allocator_system(), &profiler));
  reports = 0;
  delta_test_must(delta_profiler_measure(profiler, (const delta_graph_t *const *)&graph, 1));
  cr_expect_eq(delta_profiler_profile(profiler)->entries.count, 0);
  cr_expect(strstr(line, "2 of 2 kernels"), "%s", line);
  cr_expect(reports > 0 && reports % 2 == 0, "%u reports", reports);
  cr_expect(delta_node_seconds(device, graph, (delta_node_id_t){0}, delta_profiler_profile(profiler)) > 0);
  delta_profiler_destroy(profiler);
  delta_graph_free(graph);
}

// Copies are measured alone, beside compute and both ways at once, and are said to be.
Test(profile, copies_are_measured) {
  setenv("XDG_CACHE_HOME", folder.path, 1);
  static const delta_profile_id_t ids[] = {DELTA_PROFILE_OFFLOAD,        DELTA_PROFILE_PREFETCH,        DELTA_PROFILE_SHARED,
                                           DELTA_PROFILE_OFFLOAD_BESIDE, DELTA_PROFILE_PREFETCH_BESIDE, DELTA_PROFILE_COPY};
  static const delta_profile_id_t costs[] = {DELTA_PROFILE_OFFLOAD_START,      DELTA_PROFILE_PREFETCH_START,
                                             DELTA_PROFILE_OFFLOAD_START_DRAG, DELTA_PROFILE_PREFETCH_START_DRAG,
                                             DELTA_PROFILE_OFFLOAD_DRAG,       DELTA_PROFILE_PREFETCH_DRAG};
  const delta_profiler_options_t options = {.device = device};
  delta_profiler_t *profiler = NULL;
  delta_test_must(delta_profiler_create(&options, delta_allocator_system(), &profiler));
  const delta_profile_t *measured = delta_profiler_profile(profiler);
  for (size_t i = 0; i < 3; ++i) cr_expect_not(delta_profile_is_measured(measured, ids[i]), "number %zu", i);
  delta_test_must(delta_profiler_measure_copies(profiler));
  for (size_t i = 0; i < sizeof ids / sizeof *ids; ++i)
    cr_expect(delta_profile_is_measured(measured, ids[i]) && delta_profile_number(measured, ids[i]) > 0, "number %zu", i);
  for (size_t i = 0; i < sizeof costs / sizeof *costs; ++i) {
    const double cost = delta_profile_number(measured, costs[i]);
    cr_expect(delta_profile_is_measured(measured, costs[i]) && cost >= 0 && cost <= 1, "cost %zu: %g", i, cost);
  }
  delta_profiler_destroy(profiler);
}
