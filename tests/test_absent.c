// Devices that are not there: the shipped profiles, and what planning for them gives.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <delta/delta.h>

#include "onnx/graph/emit.h"
#include "runtime/absent.h"
#include "runtime/profile.h"
#include "runtime/select.h"
#include "tests/support/model_file.h"
#include "tests/support/planning.h"

#define GIB (1024.0 * 1024 * 1024)

static void open_shipped(const char *name, delta_device_t **out_device) {
  char path[DELTA_TEST_PATH_BYTES];
  snprintf(path, sizeof path, "%s/profiles/%s.json", DELTA_SOURCE_FOLDER, name);
  delta_test_must(delta_absent_device_open(path, &(delta_device_options_t){0}, delta_allocator_system(), out_device));
}

// What each has, and that every number says where it comes from.
Test(absent, shipped_profiles) {
  static const struct {
    const char *name;
    double memory_gib, flops_per_second, shared_bytes_per_second;
  } cases[] = {
      {"v100", 16, 15.7e12, 20e9},     {"p100", 16, 9.5e12, 20e9},    {"rtx3090", 24, 35.6e12, 40e9},
      {"h100_pcie", 80, 378e12, 85e9}, {"h200", 141, 494.5e12, 95e9}, {"cpu2", 24, 0.2e12, 2e9},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    delta_device_t *device = NULL;
    uint64_t free_bytes = 0;
    open_shipped(cases[i].name, &device);
    const delta_profile_t *profile = device->profile;
    cr_expect_str_eq(device->name, cases[i].name);
    cr_expect_eq(delta_profile_number(profile, DELTA_PROFILE_MEMORY_BYTES), cases[i].memory_gib * GIB, "%s", cases[i].name);
    cr_expect_eq(device->roofline.flops_per_second, cases[i].flops_per_second, "%s", cases[i].name);
    cr_expect_eq(delta_profile_number(profile, DELTA_PROFILE_SHARED), cases[i].shared_bytes_per_second, "%s", cases[i].name);
    delta_test_must(delta_device_free_bytes(device, &free_bytes));
    cr_expect_eq((double)free_bytes, cases[i].memory_gib * GIB - delta_profile_number(profile, DELTA_PROFILE_RESERVE_BYTES));
    for (uint32_t id = 0; id <= DELTA_PROFILE_SHARED; ++id) cr_expect(profile->numbers[id].source, "%s: number %u", cases[i].name, id);
    delta_device_close(device);
  }
}

// Nothing runs on it.
Test(absent, runs_nothing) {
  delta_device_t *device = NULL;
  delta_arena_t *arena = NULL;
  open_shipped("h200", &device);
  delta_status_t status = device->driver->arena_reserve(device, device->granule_bytes, &arena);
  cr_expect_eq(delta_status_code(status), DELTA_STATUS_UNSUPPORTED);
  cr_expect(strstr(delta_status_message(status), "h200"), "%s", delta_status_message(status));
  delta_status_free(status);
  delta_device_close(device);
}

static delta_graph_t *product_graph(int64_t rows, int64_t inner, int64_t columns) {
  delta_graph_t *graph = NULL;
  delta_emit_t emit;
  delta_tensor_id_t a, b;
  const delta_shape_t a_shape = {.rank = 2, .dims = {rows, inner}}, b_shape = {.rank = 2, .dims = {inner, columns}};
  delta_test_must(delta_graph_create(delta_allocator_system(), &graph));
  delta_emit_init(&emit, graph);
  emit.name = "product";
  delta_test_must(delta_graph_add_input(graph, "a", DELTA_DTYPE_FLOAT32, &a_shape, &a));
  delta_test_must(delta_graph_add_input(graph, "b", DELTA_DTYPE_FLOAT32, &b_shape, &b));
  const delta_tensor_id_t product = DELTA_EMIT(&emit, MATMUL, (delta_matmul_attrs_t){0}, a, b);
  delta_test_must(delta_emit_finish(&emit));
  delta_test_must(delta_graph_add_output(graph, "y", product));
  return graph;
}

// The longer of arithmetic and traffic, by hand.
Test(absent, costs_follow_the_roofline) {
  static const struct {
    int64_t rows, inner, columns;
    double seconds;
  } cases[] = {
      {4096, 4096, 4096, 2.0 * 4096 * 4096 * 4096 / (15.7e12 * 0.80) + 5e-6},       // bound by arithmetic
      {1, 4096, 4096, 4.0 * (4096 + 4096.0 * 4096 + 4096) / (900e9 * 0.80) + 5e-6}, // bound by traffic
  };
  delta_device_t *device = NULL;
  open_shipped("v100", &device);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    delta_graph_t *graph = product_graph(cases[i].rows, cases[i].inner, cases[i].columns);
    const double seconds = delta_node_seconds(device, graph, (delta_node_id_t){0}, NULL);
    cr_expect_float_eq(seconds, cases[i].seconds, cases[i].seconds * 1e-12, "case %zu: %g, not %g", i, seconds, cases[i].seconds);
    delta_graph_free(graph);
  }
  delta_device_close(device);
}

// A slice of a large tensor reads the part that it takes.
Test(absent, slices_read_a_part) {
  enum { ROWS = 1024, COLUMNS = 4096, TAKEN = 16 };
  delta_device_t *device = NULL;
  delta_graph_t *graph = NULL;
  delta_emit_t emit;
  delta_tensor_id_t x;
  const delta_shape_t shape = {.rank = 2, .dims = {ROWS, COLUMNS}};
  const delta_slice_attrs_t attrs = {.starts = {0, 7}, .steps = {1, 1}, .shape = {.rank = 2, .dims = {ROWS, TAKEN}}, .data_shape = shape};
  delta_test_must(delta_graph_create(delta_allocator_system(), &graph));
  delta_emit_init(&emit, graph);
  emit.name = "slice";
  delta_test_must(delta_graph_add_input(graph, "x", DELTA_DTYPE_FLOAT32, &shape, &x));
  const delta_tensor_id_t y = DELTA_EMIT(&emit, SLICE, attrs, x);
  delta_test_must(delta_emit_finish(&emit));
  delta_test_must(delta_graph_add_output(graph, "y", y));
  open_shipped("v100", &device);
  const double seconds = delta_node_seconds(device, graph, (delta_node_id_t){0}, NULL);
  cr_expect_float_eq(seconds, 2.0 * 4 * ROWS * TAKEN / (900e9 * 0.80) + 5e-6, 1e-15, "%g", seconds);
  delta_graph_free(graph);
  delta_device_close(device);
}
