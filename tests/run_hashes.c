// run_hashes FOLDER...: the hash of every graph that the models below the folders give, a line each: of evaluation as the file says, of training on the mean
// squared error of the first output, and of the same as an eager framework holds it. A model that gives none has the message instead.
//
// Graphs are the same whatever compiled the library: scripts/test compares what builds of two compilers print.
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/build.h"

enum { FILES_MAX = 4096, BATCH = 2 };

static char *files[FILES_MAX];
static size_t file_count;

static int keep_model(const char *path, const struct stat *facts, int kind, struct FTW *walk) {
  (void)facts;
  (void)walk;
  const size_t length = strlen(path), ending = strlen(".onnx");
  if (kind != FTW_F || length < ending || strcmp(path + length - ending, ".onnx") != 0) return 0;
  if (file_count == FILES_MAX) return 1;
  files[file_count] = strdup(path);
  return files[file_count] ? (++file_count, 0) : 1;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void print_error(const char *path, const char *form, delta_status_t status) {
  printf("%s %s: %s\n", path, form, delta_status_message(status));
  delta_status_free(status);
}

// Graphs that are built of each model.
static const struct {
  const char *name;
  bool trains, eager;
} forms[] = {{"forward", false, false}, {"training", true, false}, {"eager", true, true}};

// The batch size to ask for: none where an input states its own.
static int64_t batch_of(const delta_model_t *model) {
  for (uint32_t k = 0; k < model->input_count; ++k) {
    const delta_model_type_t *type = &model->values[model->inputs[k].index].type;
    if (type->has_shape && type->rank > 0 && type->dims[0].size >= 0) return 0;
  }
  return BATCH;
}

static delta_status_t build_form(const delta_model_t *model, size_t form, delta_graph_t **out_graph) {
  const delta_build_options_t options = {
      .import = {.batch = batch_of(model), .levers = DELTA_LEVERS_ALL, .as_exported = !forms[form].trains},
      .loss = DELTA_LOSS_MSE,
      .class_axis = 1,
      .optimizer = {.kind = DELTA_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
      .eager = forms[form].eager,
  };
  if (!forms[form].trains) return delta_import(model, &options.import, delta_allocator_system(), out_graph, &(delta_import_facts_t){0});
  return delta_graph_build(model, &options, DELTA_PROGRAM_TRAIN, delta_allocator_system(), out_graph, &(delta_build_facts_t){0});
}

static void print_hashes(const char *path) {
  delta_model_t *model = NULL;
  delta_status_t status = delta_model_load(&(delta_model_options_t){.path = path}, delta_allocator_system(), &model);
  if (status) {
    print_error(path, "load", status);
    return;
  }
  for (size_t k = 0; k < sizeof forms / sizeof *forms; ++k) {
    delta_graph_t *graph = NULL;
    char hash[65];
    status = build_form(model, k, &graph);
    if (status) {
      print_error(path, forms[k].name, status);
      continue;
    }
    delta_graph_hash(graph, hash);
    printf("%s %s %s\n", path, forms[k].name, hash);
    delta_graph_free(graph);
  }
  delta_model_free(model);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s FOLDER...\n", argv[0]);
    return 2;
  }
  for (int i = 1; i < argc; ++i) {
    if (nftw(argv[i], keep_model, 16, FTW_PHYS) == 0) continue;
    fprintf(stderr, "cannot list the models of '%s'\n", argv[i]);
    return 1;
  }
  qsort(files, file_count, sizeof *files, compare_names);
  for (size_t i = 0; i < file_count; ++i) {
    print_hashes(files[i]);
    free(files[i]);
  }
  return 0;
}
