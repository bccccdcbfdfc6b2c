// The hash of a graph: SHA-256 of its canonical text without node names.
#include "base/sha256.h"
#include "onnx/graph/graph_write.h"

static void hash_write(void *self, const char *text, size_t length) { delta_sha256_update(self, text, length); }

void delta_graph_hash(const delta_graph_t *graph, char out_text[65]) {
  delta_sha256_t hash;
  delta_sha256_init(&hash);
  delta_graph_write_all((delta_graph_sink_t){.self = &hash, .write = hash_write}, graph, false);
  delta_sha256_final_text(&hash, out_text);
}
