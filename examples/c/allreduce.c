/* Sums and averages over the workers of a job, through the C interface.
 *
 * Build and run:
 *   make build
 *   .venv/bin/farandole run -np 2 bazel-bin/examples/c/allreduce
 */
#include <stdio.h>
#include <stdlib.h>

#include "worker/farandole.h"

/* Exits with the library's sentence if a call failed. */
static void check(int code) {
  if (code == FARANDOLE_OK) return;
  fprintf(stderr, "allreduce: %s\n", farandole_last_error());
  exit(1);
}

static void finish(farandole_handle handle) {
  if (handle < 0) check((int)-handle);
  check(farandole_finish(handle, -1));
}

/* Several sums are on their way at once, and this thread takes each as soon as it is complete, in whatever order. */
static void add_at_once(int size) {
  enum { kSums = 4 };
  float sums[kSums];
  farandole_handle handles[kSums];
  for (int i = 0; i < kSums; ++i) {
    char name[16];
    snprintf(name, sizeof(name), "sum.%d", i);
    sums[i] = i + 1.0f;
    handles[i] = farandole_allreduce(name, &sums[i], &sums[i], NULL, 0, FARANDOLE_F32, FARANDOLE_SUM, 1.0, 1.0, 0, 0);
    if (handles[i] < 0) check((int)-handles[i]);
  }
  uint64_t completions = 0; /* so many are known; the wait ends when there are others */
  for (int left = kSums; left > 0;) {
    check(farandole_wait_for_completion(&completions, -1));
    for (int i = 0; i < kSums; ++i) {
      if (handles[i] == 0 || farandole_poll(handles[i]) == 0) continue;
      finish(handles[i]);
      handles[i] = 0;
      --left;
      if (sums[i] != (i + 1.0f) * (float)size) {
        fprintf(stderr, "allreduce: sum %d is %g of %d workers\n", i, sums[i], size);
        exit(1);
      }
    }
  }
}

int main(void) {
  check(farandole_init(NULL, NULL));
  const int rank = farandole_rank();
  const int size = farandole_size();

  float values[4] = {rank + 0.0f, rank + 1.0f, rank + 2.0f, rank + 3.0f};
  const int64_t shape[1] = {4};
  finish(farandole_allreduce("values", values, values, shape, 1, FARANDOLE_F32, FARANDOLE_AVERAGE, 1.0, 1.0, 0, -1));
  const float expected = (size - 1) / 2.0f;
  for (int i = 0; i < 4; ++i) {
    if (values[i] != expected + i) {
      fprintf(stderr, "allreduce: element %d is %g on rank %d, expected %g\n", i, values[i], rank, expected + i);
      return 1;
    }
  }

  add_at_once(size);

  /* Each rank contributes as many rows as its rank; the result is memory of the handle. */
  int64_t* own = malloc(sizeof(int64_t) * (size_t)(rank + 1));
  for (int i = 0; i < rank; ++i) own[i] = rank;
  const int64_t rows_shape[1] = {rank};
  farandole_handle gathered = farandole_allgather("rows", own, rows_shape, 1, FARANDOLE_I64, 0, 0, NULL);
  if (gathered < 0) check((int)-gathered);
  check(farandole_wait(gathered, -1));
  void* data = NULL;
  int64_t bytes = 0;
  check(farandole_result(gathered, &data, &bytes, NULL));
  printf("rank %d of %d: average %g, gathered %lld rows\n", rank, size, values[0],
         (long long)(bytes / (int64_t)sizeof(int64_t)));
  farandole_release(gathered);
  free(own);

  finish(farandole_barrier(NULL, 0, -1));
  check(farandole_shutdown(NULL));
  return 0;
}
