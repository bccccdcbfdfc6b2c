// IDX, CSV, synthetic data, the order of samples, learning rates.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "runtime/data/dataset.h"
#include "base/number.h"
#include "runtime/data/shuffle.h"
#include "runtime/rate.h"
#include "tests/support/data_files.h"
#include "tests/support/data_wants.h"
#include "tests/support/support.h"

static delta_status_t open_data(const char *spec, const delta_feed_want_t *wants, size_t want_count, delta_dataset_t **out_dataset) {
  return delta_dataset_open(spec, wants, want_count, 7, (delta_log_sink_t){0}, delta_allocator_system(), out_dataset);
}

// Three images of 2 x 3 bytes, and their labels.
static void write_idx(char spec[3 * DELTA_TEST_FILE_PATH_BYTES]) {
  static const unsigned char images[] = {0,  0,   8,   3,   0,   0, 0, 3, 0, 0, 0, 2, 0, 0, 0,  3,  0,
                                         51, 102, 153, 204, 255, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 9};
  char images_path[DELTA_TEST_FILE_PATH_BYTES], labels_path[DELTA_TEST_FILE_PATH_BYTES];
  snprintf(spec, 3 * DELTA_TEST_FILE_PATH_BYTES, "idx:%s,%s", delta_test_write_file("images", images, sizeof images, images_path),
           delta_test_write_file("labels", labels, sizeof labels, labels_path));
}

typedef struct idx_case {
  delta_dtype_t dtype;
  int32_t rank;
  int64_t dims[4];
  double scale;      // of the bytes
  const char *error; // instead
} idx_case_t;

static const idx_case_t idx_cases[] = {
    {DELTA_DTYPE_FLOAT32, 4, {8, 1, 2, 3}, 1.0 / 255, NULL},
    {DELTA_DTYPE_FLOAT32, 3, {8, 2, 3}, 1.0 / 255, NULL},
    {DELTA_DTYPE_FLOAT32, 2, {8, 6}, 1.0 / 255, NULL},
    {DELTA_DTYPE_UINT8, 4, {8, 1, 2, 3}, 1, NULL},
    {DELTA_DTYPE_INT64, 2, {8, 6}, 1, NULL},
    {DELTA_DTYPE_FLOAT32, 4, {8, 1, 3, 2}, 1, "'x' has shape [3, 2, 3], the model wants [batch, 1, 3, 2]"},
    {DELTA_DTYPE_FLOAT32, 4, {8, 3, 2, 3}, 1, "wants [batch, 3, 2, 3]"},
};

Test(idx, images_and_labels) {
  char spec[3 * DELTA_TEST_FILE_PATH_BYTES];
  static const double bytes[] = {0, 51, 102, 153, 204, 255};
  write_idx(spec);
  for (size_t i = 0; i < sizeof idx_cases / sizeof idx_cases[0]; ++i) {
    const idx_case_t *the_case = &idx_cases[i];
    delta_dataset_t *dataset = NULL;
    int64_t images[12], labels[2];
    delta_feed_want_t wants[] = {delta_test_want("label", DELTA_DTYPE_INT64, 1, (const int64_t[]){8}),
                                 delta_test_want("x", the_case->dtype, the_case->rank, the_case->dims)};
    delta_status_t status = open_data(spec, wants, 2, &dataset);
    if (!status) status = delta_dataset_read(dataset, (const int64_t[]){2, 0}, 2, (void *const[]){labels, images});
    delta_test_expect_message(status, the_case->error ? DELTA_STATUS_MISMATCH : DELTA_STATUS_OK, the_case->error, "idx");
    for (size_t e = 0; e < 6 && !the_case->error; ++e) {
      cr_expect_float_eq(delta_element_load_double(images, the_case->dtype, 6 + e), bytes[e] * the_case->scale, 1e-7, "case %zu", i);
    }
    if (!the_case->error) cr_expect(labels[0] == 9 && labels[1] == 5);
    delta_dataset_close(dataset);
  }
  delta_test_remove_folder();
}

typedef struct idx_file_case {
  const char *label;
  unsigned char bytes[16];
  size_t count;
  delta_status_code_t code;
  const char *message;
} idx_file_case_t;

static const idx_file_case_t idx_file_cases[] = {
    {"gzip", {0x1f, 0x8b, 8, 0}, 4, DELTA_STATUS_UNSUPPORTED, "gunzip"},
    {"other magic", {1, 0, 8, 1, 0, 0, 0, 0}, 8, DELTA_STATUS_MALFORMED, "not an IDX file"},
    {"other type", {0, 0, 0x0a, 1, 0, 0, 0, 0}, 8, DELTA_STATUS_MALFORMED, "not an IDX file"},
    {"rank 0", {0, 0, 8, 0}, 4, DELTA_STATUS_UNSUPPORTED, "0 dimensions"},
    {"rank 200", {0, 0, 8, 200}, 4, DELTA_STATUS_UNSUPPORTED, "200 dimensions"},
    {"empty", {0}, 0, DELTA_STATUS_MALFORMED, "truncated"},
    {"cut header", {0, 0, 8, 2, 0, 0, 0, 1}, 8, DELTA_STATUS_MALFORMED, "truncated"},
    {"cut data", {0, 0, 8, 1, 0, 0, 0, 4, 1, 2, 3}, 11, DELTA_STATUS_MALFORMED, "does not fit the 3 bytes"},
    {"more data", {0, 0, 8, 1, 0, 0, 0, 2, 1, 2, 3}, 11, DELTA_STATUS_MALFORMED, "does not fit the 3 bytes"},
    {"huge", {0, 0, 0x0e, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 12, DELTA_STATUS_MALFORMED, "does not fit"},
};

Test(idx, wrong_files) {
  for (size_t i = 0; i < sizeof idx_file_cases / sizeof idx_file_cases[0]; ++i) {
    const idx_file_case_t *the_case = &idx_file_cases[i];
    char path[DELTA_TEST_FILE_PATH_BYTES], spec[3 * DELTA_TEST_FILE_PATH_BYTES];
    delta_dataset_t *dataset;
    delta_feed_want_t the_want = delta_test_want("x", DELTA_DTYPE_FLOAT32, 2, (const int64_t[]){8, 6});
    delta_test_write_file("bad.idx", the_case->bytes, the_case->count, path);
    snprintf(spec, sizeof spec, "idx:%s,%s", path, path);
    delta_test_expect_message(open_data(spec, &the_want, 1, &dataset), the_case->code, the_case->message, the_case->label);
    delta_test_expect_message(open_data(spec, &the_want, 1, &dataset), the_case->code, "bad.idx", the_case->label);
  }
  delta_test_remove_folder();
}

Test(idx, a_second_input_is_refused) {
  char spec[3 * DELTA_TEST_FILE_PATH_BYTES];
  delta_dataset_t *dataset;
  delta_feed_want_t wants[] = {delta_test_want("a", DELTA_DTYPE_FLOAT32, 2, (const int64_t[]){8, 6}),
                               delta_test_want("b", DELTA_DTYPE_FLOAT32, 2, (const int64_t[]){8, 6})};
  write_idx(spec);
  delta_test_expect_message(open_data(spec, wants, 2, &dataset), DELTA_STATUS_INVALID_ARGUMENT, "the model has 2", "two inputs");
  delta_test_remove_folder();
}

// A CSV file for an input of two floats and a label, and the first row that comes of it.
typedef struct csv_case {
  const char *label;
  const char *text;
  const char *option;
  int64_t rows;
  float x[2];
  int64_t y;
  delta_status_code_t code;
  const char *message;
} csv_case_t;

static const csv_case_t csv_cases[] = {
    {"plain", "1,2,3\n4,5,6\n", "", 2, {1, 2}, 3, DELTA_STATUS_OK, NULL},
    {"no last newline", "1,2,3\n4,5,6", "", 2, {1, 2}, 3, DELTA_STATUS_OK, NULL},
    {"header", "a,b,c\n1,2,3\n", "", 1, {1, 2}, 3, DELTA_STATUS_OK, NULL},
    {"header of quoted names", "\"a, b\",\"say \"\"b\"\"\",c\n1,2,3\n", ":label=say \"b\"", 1, {1, 3}, 2, DELTA_STATUS_OK, NULL},
    {"label by name", "y,a,b\n1,2,3\n", ":label=y", 1, {2, 3}, 1, DELTA_STATUS_OK, NULL},
    {"label by number", "y,a,b\n1,2,3\n", ":label=1", 1, {1, 3}, 2, DELTA_STATUS_OK, NULL},
    {"label from the end", "1,2,3\n", ":label=-3", 1, {2, 3}, 1, DELTA_STATUS_OK, NULL},
    {"a name that is a number", "1,x,0\n5,6,7\n", ":label=0", 1, {5, 6}, 7, DELTA_STATUS_OK, NULL},
    {"CR LF, blanks, blank lines", "\r\n 1 , -2.5e1 ,\t3\r\n\r\n \n4,5,6\r\n\r\n", "", 2, {1, -25}, 3, DELTA_STATUS_OK, NULL},
    {"quoted numbers", "\"1\", \"2\" ,\"3\"\n", "", 1, {1, 2}, 3, DELTA_STATUS_OK, NULL},
    {"byte order mark",
     "\xef\xbb\xbf"
     "1,2,3\n",
     "",
     1,
     {1, 2},
     3,
     DELTA_STATUS_OK,
     NULL},
    {"label as a float", "1,2,3.0\n", "", 1, {1, 2}, 3, DELTA_STATUS_OK, NULL},
    {"large label", "1,2,9007199254740993\n", "", 1, {1, 2}, 9007199254740993, DELTA_STATUS_OK, NULL},
    {"empty file", "", "", 0, {0}, 0, DELTA_STATUS_MALFORMED, "no rows"},
    {"blank file", "\n \n", "", 0, {0}, 0, DELTA_STATUS_MALFORMED, "no rows"},
    {"header only", "a,b,c\n", "", 0, {0}, 0, DELTA_STATUS_MISMATCH, "no samples"},
    {"short row", "1,2,3\n\n4,5\n", "", 0, {0}, 0, DELTA_STATUS_MALFORMED, "line 3: 2 cells, but 3 in the first line"},
    {"long row", "1,2,3\n4,5,6,7\n", "", 0, {0}, 0, DELTA_STATUS_MALFORMED, "line 2: 4 cells"},
    {"columns other than wanted",
     "1,2,3,4\n",
     "",
     0,
     {0},
     0,
     DELTA_STATUS_MISMATCH,
     "3 columns for array 'x' (column 3 was taken as the label), the model wants [batch, 2]"},
    {"no number", "a,b,c\n1,two,3\n", "", 1, {0}, 0, DELTA_STATUS_MALFORMED, "line 2, column 1: 'two' is not a finite number"},
    {"empty cell", "a,b,c\n1,,3\n", "", 1, {0}, 0, DELTA_STATUS_MALFORMED, "column 1: '' is not a finite number"},
    {"nan", "a,b,c\nnan,2,3\n", "", 1, {0}, 0, DELTA_STATUS_MALFORMED, "'nan' is not a finite number"},
    {"hexadecimal", "a,b,c\n0x10,2,3\n", "", 1, {0}, 0, DELTA_STATUS_MALFORMED, "'0x10'"},
    {"too large", "1,1e999,3\n", "", 1, {0}, 0, DELTA_STATUS_MALFORMED, "line 1, column 1: '1e999'"},
    {"a missing value makes no header", "1,,3\n4,5,6\n", "", 2, {0}, 0, DELTA_STATUS_MALFORMED, "line 1, column 1: ''"},
    {"nor does nan", "nan,2,3\n4,5,6\n", "", 2, {0}, 0, DELTA_STATUS_MALFORMED, "line 1, column 0: 'nan'"},
    {"label with a fraction", "1,2,3.5\n", "", 1, {0}, 0, DELTA_STATUS_MALFORMED, "column 2: '3.5' is not an integer"},
    {"no such column", "a,b,c\n1,2,3\n", ":label=d", 0, {0}, 0, DELTA_STATUS_NOT_FOUND, "no column 'd'"},
    {"column beyond", "1,2,3\n", ":label=3", 0, {0}, 0, DELTA_STATUS_NOT_FOUND, "from -3 to 2"},
    {"open quote", "1,\"2,3\n4,5,6\n", "", 0, {0}, 0, DELTA_STATUS_MALFORMED, "line 1: a quoted cell does not end"},
    {"text after a quote", "1,\"2\"3,4\n", "", 0, {0}, 0, DELTA_STATUS_MALFORMED, "line 1: text after a quoted cell"},
};

Test(csv, files) {
  for (size_t i = 0; i < sizeof csv_cases / sizeof csv_cases[0]; ++i) {
    const csv_case_t *the_case = &csv_cases[i];
    char path[DELTA_TEST_FILE_PATH_BYTES], spec[2 * DELTA_TEST_FILE_PATH_BYTES];
    delta_dataset_t *dataset = NULL;
    float x[2];
    int64_t y;
    delta_feed_want_t wants[] = {delta_test_want("x", DELTA_DTYPE_FLOAT32, 2, (const int64_t[]){8, 2}),
                                 delta_test_want("label", DELTA_DTYPE_INT64, 1, (const int64_t[]){8})};
    delta_test_write_file("a.csv", the_case->text, strlen(the_case->text), path);
    snprintf(spec, sizeof spec, "csv:%s%s", path, the_case->option);
    delta_status_t status = open_data(spec, wants, 2, &dataset);
    if (!status) cr_expect_eq(delta_dataset_samples(dataset), the_case->rows, "%s", the_case->label);
    if (!status) status = delta_dataset_read(dataset, (const int64_t[]){0}, 1, (void *const[]){x, &y});
    bool read = status == DELTA_OK;
    delta_test_expect_message(status, the_case->code, the_case->message, the_case->label);
    if (read) cr_expect(x[0] == the_case->x[0] && x[1] == the_case->x[1] && y == the_case->y, "%s", the_case->label);
    delta_dataset_close(dataset);
  }
  delta_test_remove_folder();
}

// More rows than the index holds, rows longer than the staging buffer, any order: memory stays bounded and every value is right.
static void check_counting_csv(int64_t rows, int64_t columns, size_t memory_limit_bytes) {
  char path[DELTA_TEST_FILE_PATH_BYTES], spec[2 * DELTA_TEST_FILE_PATH_BYTES];
  FILE *file = fopen(delta_test_file_path("large.csv", path), "w");
  cr_assert(file);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) fprintf(file, "%lld,", (long long)(row * columns + column));
    fprintf(file, "%lld\n%s", (long long)row, row % 7 == 0 ? "\n" : "");
  }
  fclose(file);
  snprintf(spec, sizeof spec, "csv:%s", path);
  delta_test_allocator_t counting;
  delta_dataset_t *dataset;
  delta_feed_want_t wants[] = {delta_test_want("x", DELTA_DTYPE_FLOAT32, 2, (const int64_t[]){8, columns}),
                               delta_test_want("label", DELTA_DTYPE_INT32, 1, (const int64_t[]){8})};
  delta_test_allocator_init(&counting, 0, DELTA_TEST_FAIL_ONCE);
  cr_assert_null(delta_dataset_open(spec, wants, 2, 7, (delta_log_sink_t){0}, delta_test_allocator_interface(&counting), &dataset));
  cr_assert_eq(delta_dataset_samples(dataset), rows);
  float *x = malloc(4 * (size_t)columns * sizeof *x);
  for (int64_t trial = 0; trial < 200; ++trial) {
    int32_t labels[4];
    const int64_t first = trial * 7919 % (rows - 1), samples[] = {first, first + 1, rows - 1 - first, 0};
    cr_assert_null(delta_dataset_read(dataset, samples, 4, (void *const[]){x, labels}));
    for (int64_t i = 0; i < 4; ++i) {
      cr_assert_eq(labels[i], samples[i]);
      for (int64_t column = 0; column < columns; ++column) cr_assert_eq(x[i * columns + column], (float)(samples[i] * columns + column));
    }
  }
  cr_expect_lt(counting.peak_bytes, memory_limit_bytes, "%zu bytes", (size_t)counting.peak_bytes);
  free(x);
  delta_dataset_close(dataset);
  delta_test_remove_folder();
}

Test(csv, more_rows_than_the_index) { check_counting_csv(150000, 2, 2 << 20); }

Test(csv, rows_longer_than_the_staging_buffer) { check_counting_csv(3, 20001, 6 << 20); }

Test(csv, many_dimensions_and_no_label) {
  char path[DELTA_TEST_FILE_PATH_BYTES], spec[2 * DELTA_TEST_FILE_PATH_BYTES];
  delta_dataset_t *dataset;
  float x[4];
  delta_feed_want_t the_want = delta_test_want("x", DELTA_DTYPE_FLOAT32, 4, (const int64_t[]){8, 1, 2, 2});
  snprintf(spec, sizeof spec, "csv:%s", delta_test_write_file("a.csv", "1,2,3,4\n", 8, path));
  cr_assert_null(open_data(spec, &the_want, 1, &dataset));
  cr_assert_null(delta_dataset_read(dataset, (const int64_t[]){0}, 1, (void *const[]){x}));
  cr_expect(x[0] == 1 && x[3] == 4);
  delta_dataset_close(dataset);
  delta_test_remove_folder();
}

Test(synthetic, a_sample_depends_on_nothing_but_its_number) {
  delta_dataset_t *small, *large, *other;
  float one[5], many[4 * 5], different[5];
  int64_t ids[3 * 5];
  delta_feed_want_t wants[] = {delta_test_want("x", DELTA_DTYPE_FLOAT32, 2, (const int64_t[]){1, 5}),
                               delta_test_want("ids", DELTA_DTYPE_INT64, 2, (const int64_t[]){1, 3})};
  wants[1].minimum = 10;
  wants[1].maximum = 14;
  cr_assert_null(open_data("synthetic:samples=10", wants, 2, &small));
  wants[0].shape.dims[0] = wants[1].shape.dims[0] = 4;
  cr_assert_null(open_data("synthetic", wants, 2, &large));
  cr_assert_null(delta_dataset_open("synthetic", wants, 2, 8, (delta_log_sink_t){0}, delta_allocator_system(), &other));
  cr_expect_eq(delta_dataset_samples(small), 10);
  cr_expect_eq(delta_dataset_samples(large), 1024);
  cr_assert_null(delta_dataset_read(large, (const int64_t[]){3, 4, 5, 1}, 4, (void *const[]){many, ids}));
  cr_assert_null(delta_dataset_read(small, (const int64_t[]){5}, 1, (void *const[]){one, ids}));
  cr_expect_arr_eq(one, many + 10, sizeof one);
  cr_assert_null(delta_dataset_read(other, (const int64_t[]){5}, 1, (void *const[]){different, ids}));
  cr_expect_arr_neq(one, different, sizeof one, "the seed matters");
  delta_dataset_close(small);
  delta_dataset_close(large);
  delta_dataset_close(other);
}

Test(synthetic, distributions) {
  enum { SAMPLES = 200, ELEMENTS = 101 };
  static float x[SAMPLES * ELEMENTS];
  static int32_t ids[SAMPLES * ELEMENTS];
  static int64_t absent[SAMPLES];
  int64_t samples[SAMPLES], counts[5] = {0};
  double sum = 0, squares = 0;
  delta_dataset_t *dataset;
  delta_feed_want_t wants[] = {delta_test_want("x", DELTA_DTYPE_FLOAT32, 2, (const int64_t[]){1, ELEMENTS}),
                               delta_test_want("ids", DELTA_DTYPE_INT32, 2, (const int64_t[]){1, ELEMENTS}),
                               delta_test_want("mask", DELTA_DTYPE_INT64, 1, (const int64_t[]){1})};
  wants[1].minimum = -2;
  wants[1].maximum = 3;
  for (int64_t i = 0; i < SAMPLES; ++i) samples[i] = i;
  memset(absent, 1, sizeof absent);
  cr_assert_null(open_data("synthetic", wants, 3, &dataset));
  cr_assert_null(delta_dataset_read(dataset, samples, SAMPLES, (void *const[]){x, ids, absent}));
  for (size_t i = 0; i < SAMPLES * ELEMENTS; ++i) {
    sum += x[i];
    squares += (double)x[i] * x[i];
    cr_assert(ids[i] >= -2 && ids[i] < 3);
    ++counts[ids[i] + 2];
  }
  double count = SAMPLES * ELEMENTS;
  cr_expect_float_eq(sum / count, 0, 5 / sqrt(count), "mean %g", sum / count);
  cr_expect_float_eq(squares / count, 1, 5 * sqrt(2 / count), "variance %g", squares / count);
  for (size_t i = 0; i < 5; ++i)
    cr_expect_float_eq((double)counts[i], count / 5, 5 * sqrt(count * 0.2 * 0.8), "%zu: %lld", i, (long long)counts[i]);
  for (size_t i = 0; i < SAMPLES; ++i) cr_expect_eq(absent[i], 0);
  delta_dataset_close(dataset);
}

Test(shuffle, every_sample_once) {
  static const int64_t counts[] = {1, 2, 3, 4, 5, 16, 17, 100, 4097};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
    bool *seen = calloc((size_t)counts[i], 1);
    delta_shuffle_t shuffle;
    delta_shuffle_init(&shuffle, counts[i], true, 3, 5);
    for (int64_t position = 0; position < counts[i]; ++position) {
      int64_t sample = delta_shuffle_at(&shuffle, position);
      cr_assert(sample >= 0 && sample < counts[i] && !seen[sample], "%lld of %lld", (long long)sample, (long long)counts[i]);
      seen[sample] = true;
    }
    free(seen);
  }
}

Test(shuffle, depends_on_seed_and_epoch) {
  enum { COUNT = 1000 };
  delta_shuffle_t shuffles[4];
  delta_shuffle_init(&shuffles[0], COUNT, true, 3, 5);
  delta_shuffle_init(&shuffles[1], COUNT, true, 3, 6);
  delta_shuffle_init(&shuffles[2], COUNT, true, 4, 5);
  delta_shuffle_init(&shuffles[3], COUNT, false, 3, 5);
  // Two independent permutations agree at about one position.
  for (int i = 1; i < 4; ++i) {
    int equal = 0;
    for (int64_t p = 0; p < COUNT; ++p) equal += delta_shuffle_at(&shuffles[0], p) == delta_shuffle_at(&shuffles[i], p);
    cr_expect_lt(equal, 10, "%d: %d", i, equal);
  }
  for (int64_t p = 0; p < COUNT; ++p) cr_assert_eq(delta_shuffle_at(&shuffles[3], p), p);
}

// Over many seeds each sample comes to each position about equally often.
Test(shuffle, is_even) {
  enum { COUNT = 6, SEEDS = 12000 };
  int counts[COUNT][COUNT] = {{0}};
  for (uint64_t seed = 0; seed < SEEDS; ++seed) {
    delta_shuffle_t shuffle;
    delta_shuffle_init(&shuffle, COUNT, true, seed, 0);
    for (int64_t p = 0; p < COUNT; ++p) ++counts[p][delta_shuffle_at(&shuffle, p)];
  }
  for (int p = 0; p < COUNT; ++p) {
    for (int s = 0; s < COUNT; ++s) cr_expect_float_eq(counts[p][s], SEEDS / COUNT, 250, "position %d, sample %d: %d", p, s, counts[p][s]);
  }
}

Test(shuffle, large_counts_need_no_table) {
  delta_shuffle_t shuffle;
  int64_t count = ((int64_t)1 << 61) + 12345;
  delta_shuffle_init(&shuffle, count, true, 1, 1);
  for (int64_t p = 0; p < 100; ++p) {
    int64_t sample = delta_shuffle_at(&shuffle, count - 1 - p);
    cr_expect(sample >= 0 && sample < count);
  }
}

typedef struct rate_case {
  const char *schedule;
  int64_t warmup, total, step;
  double expected; // of a base of 2
} rate_case_t;

static const rate_case_t rate_cases[] = {
    {"constant", 0, 10, 0, 2}, {"constant", 0, 10, 9, 2}, {"constant", 4, 10, 0, 0.5}, {"constant", 4, 10, 3, 2}, {"constant", 4, 10, 4, 2},
    {"linear", 0, 10, 0, 2},   {"linear", 0, 10, 5, 1},   {"linear", 0, 10, 9, 0.2},   {"linear", 0, 10, 10, 0},  {"linear", 0, 10, 11, 0},
    {"linear", 2, 10, 1, 2},   {"linear", 2, 10, 2, 2},   {"linear", 2, 10, 6, 1},     {"linear", 0, 1, 0, 2},    {"linear", 20, 10, 9, 1},
    {"cosine", 0, 10, 0, 2},   {"cosine", 0, 12, 4, 1.5}, {"cosine", 0, 10, 5, 1},     {"cosine", 0, 10, 10, 0},  {"cosine", 2, 10, 6, 1},
    {"step", 0, 9, 2, 2},      {"step", 0, 9, 3, 0.2},    {"step", 0, 9, 5, 0.2},      {"step", 0, 9, 6, 0.02},   {"step", 0, 9, 8, 0.02},
    {"step", 0, 10, 3, 2},     {"step", 0, 10, 4, 0.2},   {"step", 0, 10, 6, 0.2},     {"step", 0, 10, 7, 0.02},  {"step", 2, 9, 0, 1},
};

Test(rate, schedules) {
  for (size_t i = 0; i < sizeof rate_cases / sizeof rate_cases[0]; ++i) {
    const rate_case_t *the_case = &rate_cases[i];
    delta_rate_t rate = {.base = 2, .warmup_steps = the_case->warmup, .total_steps = the_case->total};
    cr_assert_null(delta_rate_schedule_parse(the_case->schedule, &rate.schedule));
    double value = delta_rate_at(&rate, the_case->step);
    cr_expect_float_eq(value, the_case->expected, 1e-12, "%s, warm-up %lld, step %lld of %lld: %g", the_case->schedule,
                       (long long)the_case->warmup, (long long)the_case->step, (long long)the_case->total, value);
  }
}

Test(rate, unknown_schedule) {
  delta_rate_schedule_t schedule;
  delta_test_expect_message(delta_rate_schedule_parse("expo", &schedule), DELTA_STATUS_INVALID_ARGUMENT,
                            "'expo'; there are: constant linear cosine step", "unknown");
}

Test(number, texts) {
  static const struct {
    const char *text;
    bool is_number, is_integer;
  } cases[] = {{"1", true, true},
               {"-1.5", true, false},
               {"+2", true, true},
               {"1e3", true, true},
               {".5", true, false},
               {"", false, false},
               {"-", false, false},
               {"1e", false, false},
               {"1 ", false, false},
               {" 1", false, false},
               {"0x1", false, false},
               {"inf", false, false},
               {"nan", false, false},
               {"1e400", false, false},
               {"9223372036854775807", true, true},
               {"9223372036854775808", true, false},
               {"1,5", false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    double number;
    int64_t integer;
    cr_expect_eq(delta_number_parse(cases[i].text, &number), cases[i].is_number, "'%s'", cases[i].text);
    cr_expect_eq(delta_number_parse_integer(cases[i].text, &integer), cases[i].is_integer, "'%s'", cases[i].text);
  }
}
