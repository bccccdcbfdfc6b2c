// The expression of DELTA_GROUP neighbouring elements, as text for what NVRTC compiles (sources.c): between delta_expression and the kernels, which all load a group, do this, and
// go on with the results.
DELTA_DEVICE void delta_expression_group(work_t (*x)[DELTA_GROUP], work_t (*y)[DELTA_GROUP]) {
  DELTA_UNROLL
  for (int j = 0; j < DELTA_GROUP; ++j) {
    work_t in[DELTA_INPUTS + 1], out[DELTA_OUTPUTS];
    DELTA_UNROLL
    for (int k = 0; k < DELTA_INPUTS; ++k) in[k] = x[k][j];
    delta_expression(in, out);
    DELTA_UNROLL
    for (int k = 0; k < DELTA_OUTPUTS; ++k) y[k][j] = out[k];
  }
}
