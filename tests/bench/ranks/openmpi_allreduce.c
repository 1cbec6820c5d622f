/* Measures `farandole bench --op allreduce --dtype f32` with Open MPI: buffers are written anew before each step,
 * a barrier comes before it where that takes long, a step takes as long as its slowest rank. Rank 0 prints one JSON
 * object.
 *
 *   mpicc -O2 openmpi_allreduce.c -o openmpi_allreduce && mpirun -np 2 ./openmpi_allreduce BYTES TENSORS SECONDS
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { kWarmUpSteps = 4, kLeastSteps = 5, kMostSteps = 100000, kLooks = 8, kMostBytesWithoutBarrier = 32 << 10 };

struct bench {
  int rank;
  int size;
  size_t count;
  int tensors;
  float** buffers;
};

static float contribution(int rank, uint64_t turn, size_t i) { return (float)((i + turn + (size_t)rank) % 4); }

static void rewrite(const struct bench* bench, uint64_t turn) {
  float period[4];
  for (size_t i = 0; i < 4; ++i) period[i] = contribution(bench->rank, turn, i);
  for (int tensor = 0; tensor < bench->tensors; ++tensor) {
    for (size_t i = 0; i < bench->count; ++i) bench->buffers[tensor][i] = period[i % 4];
  }
}

static size_t count_wrong(const struct bench* bench, uint64_t turn) {
  float period[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < 4; ++i) {
    for (int rank = 0; rank < bench->size; ++rank) period[i] += contribution(rank, turn, i);
  }
  size_t wrong = 0;
  for (int tensor = 0; tensor < bench->tensors; ++tensor) {
    for (size_t i = 0; i < bench->count; ++i) wrong += bench->buffers[tensor][i] != period[i % 4];
  }
  return wrong;
}

static double time_step(const struct bench* bench, int has_barrier, uint64_t turn) {
  rewrite(bench, turn);
  if (has_barrier) MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int tensor = 0; tensor < bench->tensors; ++tensor) {
    MPI_Allreduce(MPI_IN_PLACE, bench->buffers[tensor], (int)bench->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  return MPI_Wtime() - start;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

static int is_over(double start, double seconds) {
  double took = MPI_Wtime() - start;
  MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return took > 2 * seconds;
}

static void measure(const struct bench* bench, double seconds) {
  const int has_barrier = bench->count * sizeof(float) * (size_t)bench->tensors > kMostBytesWithoutBarrier;
  double fastest = 3600;
  uint64_t turn = 0;
  unsigned long wrong = 0;
  for (; turn < kWarmUpSteps; ++turn) {
    const double took = time_step(bench, 1, turn);
    if (took < fastest) fastest = took;
    wrong += count_wrong(bench, turn);
  }
  MPI_Allreduce(MPI_IN_PLACE, &fastest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  const double wanted = seconds / (fastest > 1e-9 ? fastest : 1e-9);
  const int planned = wanted < kLeastSteps ? kLeastSteps : wanted > kMostSteps ? kMostSteps : (int)wanted;
  double* samples = malloc(sizeof(double) * (size_t)planned);
  const double start = MPI_Wtime();
  int steps = 0;
  for (; steps < planned; ++steps, ++turn) {
    if (steps > 0 && steps % (planned / kLooks + kLeastSteps) == 0 && is_over(start, seconds)) break;
    samples[steps] = time_step(bench, has_barrier, turn);
  }
  wrong += count_wrong(bench, turn - 1);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, samples, steps, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  qsort(samples, (size_t)steps, sizeof(double), ascending);
  if (bench->rank == 0) {
    printf("{\"median_us\": %.3f, \"p99_us\": %.3f, \"steps\": %d, \"wrong\": %lu}\n", samples[steps / 2] * 1e6,
           samples[(steps * 99 + 99) / 100 - 1] * 1e6, steps, wrong);
  }
  free(samples);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: openmpi_allreduce BYTES TENSORS SECONDS\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  struct bench bench = {.count = strtoull(argv[1], NULL, 10) / sizeof(float), .tensors = atoi(argv[2])};
  MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &bench.size);
  bench.buffers = malloc(sizeof(float*) * (size_t)bench.tensors);
  for (int i = 0; i < bench.tensors; ++i) bench.buffers[i] = malloc(sizeof(float) * bench.count);
  measure(&bench, strtod(argv[3], NULL));
  for (int i = 0; i < bench.tensors; ++i) free(bench.buffers[i]);
  free(bench.buffers);
  MPI_Finalize();
  return 0;
}
