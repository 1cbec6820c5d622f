/* The C interface of Farandole's worker library, libfarandole.so. All SDKs stand on it.
 *
 * Rules
 * - A process holds one worker: farandole_init starts it, farandole_shutdown ends it, and it may be started again.
 * - All functions may be called from any thread unless they say otherwise. After fork(), a child that did not exec gets
 *   FARANDOLE_FAILED_PRECONDITION from every call: it is not a worker.
 * - Code that `interrupted` runs, a handler of Python's signals for instance, may call all functions too. Among those
 *   that have an `interrupted`, only farandole_shutdown does its work there: the others are
 *   FARANDOLE_FAILED_PRECONDITION, and name the call that they were made within. A signal handler of C's, which may
 *   come while a lock is held or memory is allocated, calls none: it sets a flag, which `interrupted` reads.
 * - Functions that can fail return a code (0: FARANDOLE_OK); farandole_last_error() says what, who and both values.
 * - Tensors are borrowed: memory given to a submission stays with the library until its handle is complete. It must be
 * contiguous and aligned to its element. Input and output may be the same; other overlap is not allowed.
 * - Strings end in NUL. They are UTF-8, or INVALID_ARGUMENT; only paths of this host may have other bytes, and in the
 *   words of farandole_fail and farandole_depart U+FFFD replaces them. Pointers returned say how long they live.
 * - Numbers of enums are those of proto/farandole/v1/types.proto, and never change.
 */
#ifndef FARANDOLE_WORKER_FARANDOLE_H_
#define FARANDOLE_WORKER_FARANDOLE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FARANDOLE_EXPORT __attribute__((visibility("default")))

/* Raised when a function changes in a way that a caller can notice. */
#define FARANDOLE_ABI_VERSION 4

/* Codes; the meaning of each is in docs/errors.md. STILL_PENDING is no error: the wait's time is over. */
enum {
  FARANDOLE_OK = 0,
  FARANDOLE_STILL_PENDING = 1,
  FARANDOLE_CANCELLED = 2,
  FARANDOLE_INVALID_ARGUMENT = 3,
  FARANDOLE_DEADLINE_EXCEEDED = 4,
  FARANDOLE_NOT_FOUND = 5,
  FARANDOLE_ALREADY_EXISTS = 6,
  FARANDOLE_PERMISSION_DENIED = 7,
  FARANDOLE_RESOURCE_EXHAUSTED = 8,
  FARANDOLE_FAILED_PRECONDITION = 9,
  FARANDOLE_ABORTED = 10,
  FARANDOLE_UNIMPLEMENTED = 12,
  FARANDOLE_INTERNAL = 13,
  FARANDOLE_UNAVAILABLE = 14,
  FARANDOLE_DATA_LOSS = 15,
  FARANDOLE_UNAUTHENTICATED = 16
};

/* Element types. */
enum {
  FARANDOLE_U8 = 0,
  FARANDOLE_I8 = 1,
  FARANDOLE_I16 = 2,
  FARANDOLE_I32 = 3,
  FARANDOLE_I64 = 4,
  FARANDOLE_F16 = 5,
  FARANDOLE_BF16 = 6,
  FARANDOLE_F32 = 7,
  FARANDOLE_F64 = 8,
  FARANDOLE_BOOL = 9,
  FARANDOLE_U16 = 10,
  FARANDOLE_F8E4M3 = 11, /* as ml_dtypes and PyTorch have them: float8_e4m3fn and float8_e5m2 */
  FARANDOLE_F8E5M2 = 12
};

/* Reductions. Average divides by the size of the group; of integers it truncates towards zero. Bool: sum and max are
 * "or", product and min are "and"; average of bool is FARANDOLE_INVALID_ARGUMENT. Adasum (worker/kernels/adasum.h) is
 * for allreduce of one floating-point tensor. */
enum {
  FARANDOLE_AVERAGE = 0,
  FARANDOLE_SUM = 1,
  FARANDOLE_ADASUM = 2,
  FARANDOLE_MIN = 3,
  FARANDOLE_MAX = 4,
  FARANDOLE_PRODUCT = 5
};

/* ---- Life ----------------------------------------------------------------------------------------------------- */

/* Settings of farandole_init. Set `struct_bytes` to sizeof; zero or NULL takes the value of the environment variable
 * named beside the field, and where that is not set either, the default. */
typedef struct farandole_init_options {
  uint64_t struct_bytes;
  const char* coordinator;        /* FARANDOLE_COORDINATOR: HOST:PORT. Without it the worker is a job of size 1. */
  const char* token_file;         /* FARANDOLE_TOKEN_FILE: file that holds the tenant's token. */
  const char* job;                /* FARANDOLE_JOB; default "job". */
  int32_t size;                   /* FARANDOLE_SIZE: number of workers; default 1. */
  int32_t launch_index;           /* FARANDOLE_LAUNCH_INDEX, plus 1 (so that 0 means unset): orders the ranks. */
  int64_t join_timeout_ms;        /* FARANDOLE_JOIN_TIMEOUT_MS; default 600,000. */
  int64_t stall_warning_ms;       /* FARANDOLE_STALL_WARNING_MS; default 10,000. */
  const char* transport;          /* FARANDOLE_TRANSPORT: "auto" (default), "shm", "tcp" or "gloo". */
  int64_t fusion_threshold_bytes; /* FARANDOLE_FUSION_THRESHOLD_BYTES: most bytes of a fused batch; default 64 MiB. */
  int64_t outage_limit_ms;        /* FARANDOLE_OUTAGE_LIMIT_MS: how long the coordinator may be away; default 30,000. */
  const char* ca_file;            /* FARANDOLE_CA_FILE: certificates (PEM) that the coordinator's must descend from;
                                     without it TLS is not spoken. */
  const char* program;            /* FARANDOLE_PROGRAM: path of `farandole`, by which rank 0 of mpirun or srun starts a
                                     coordinator; default: beside this library (also ../_bin), or by PATH. */
  int32_t min_size;               /* FARANDOLE_MIN_SIZE: fewest workers of an epoch. It, or max_size, makes the job
                                     elastic; the default of each is then the size. */
  int32_t max_size;               /* FARANDOLE_MAX_SIZE: most workers of an epoch. */
  int64_t join_window_ms;         /* FARANDOLE_JOIN_WINDOW_MS: from the first newcomer on, how long the coordinator
                                     waits for others before it assigns ranks; default 200. */
  int64_t shortage_limit_ms;      /* FARANDOLE_ELASTIC_TIMEOUT_MS: how long there may be fewer than min_size workers
                                     before the job fails; default 600,000. */
  int32_t reset_limit;       /* FARANDOLE_RESET_LIMIT: most epochs lost before the job fails; default 0: any number. */
  int64_t least_cooldown_ms; /* FARANDOLE_COOLDOWN_MIN_MS: how long a host on which workers fail is barred at first,
                                doubled with each failure; default 0, with the next: no host is barred. */
  int64_t most_cooldown_ms;  /* FARANDOLE_COOLDOWN_MAX_MS: and how long at most. */
  const int32_t* members; /* Not NULL: launch indices (under mpirun or srun, its ranks) of those workers that are to be
                             a job of their own, in the order of its ranks; the others of the launch have no part in
                             it. This one is among them. Not of an elastic job. */
  int32_t member_count;
  const char* cert_file; /* FARANDOLE_CERT_FILE: the certificate (PEM) by which the worker proves itself to the
                            coordinator where it has no token; with key_file and ca_file. */
  const char* key_file;  /* FARANDOLE_KEY_FILE: that certificate's key (PEM). */
} farandole_init_options;

FARANDOLE_EXPORT int farandole_abi_version(void);
/* Farandole's version, "0.1.0"; static. */
FARANDOLE_EXPORT const char* farandole_version(void);
/* The sentence for the last failed call of this thread; "" if there was none. Valid until the thread's next call. */
FARANDOLE_EXPORT const char* farandole_last_error(void);

/* Joins the job and returns when its epoch has formed and peers are connected. NULL options: all from the environment.
 * If `interrupted` is not NULL, it is called about every 100 ms of a wait; a value other than 0 ends the call with
 * FARANDOLE_ABORTED. If the job is elastic and an epoch ends while its peers connect, the call goes on to the next one.
 *
 *   INVALID_ARGUMENT     an option or variable is not valid (named), or workers disagree about the size
 *   FAILED_PRECONDITION  already initialized
 *   DEADLINE_EXCEEDED    not all workers joined in time (those that did are named)
 *   UNAVAILABLE          the coordinator cannot be reached
 *   UNAUTHENTICATED, PERMISSION_DENIED, RESOURCE_EXHAUSTED: the coordinator refused the worker; the text says why
 *   CANCELLED            the elastic job finished while this process waited for a place */
FARANDOLE_EXPORT int farandole_init(const farandole_init_options* options, int (*interrupted)(void));
/* Leaves the job in order. Rank 0 stays until all ranks have left or died. Pending submissions end with ABORTED. OK if
 * not initialized. `interrupted` as above; a rank that gives up ends the epoch for the others. A farandole_init or
 * farandole_rejoin that waits meanwhile, in any thread, gives up with FAILED_PRECONDITION. Called by their
 * `interrupted`, or by that of another farandole_shutdown, this returns OK at once, and the outer call stops the worker
 * before it returns. Called by that of another function, it stops the worker, and the outer call is
 * FAILED_PRECONDITION. */
FARANDOLE_EXPORT int farandole_shutdown(int (*interrupted)(void));
/* This worker's program has failed and cannot go on: ends the epoch on all ranks with "rank R (...) failed: WORDS", of
 * which at most 1,024 bytes are kept. To be followed by farandole_shutdown. Nothing where the epoch has ended already.
 * FARANDOLE_FAILED_PRECONDITION before init. */
FARANDOLE_EXPORT int farandole_fail(const char* words);
/* Elastic jobs, and a job of size 1 without a coordinator: leaves the present epoch and joins the job's next one, in
 * this process, with the options of the last farandole_init. Returns when that epoch has formed and its peers are
 * connected; should it end meanwhile, goes on to the one after. An epoch that has not ended is left in order: all ranks
 * call this at the same point of the program. Pending submissions end with ABORTED. The epoch's
 * arenas live on until they are released; its groups and handles are gone. A worker that was counted as lost
 * meanwhile comes as a newcomer.
 *   CANCELLED            the job has no place for this process any more: it was drained, or the job has finished
 *   ABORTED              the job has failed (the text says why); or interrupted, as in farandole_init
 *   FAILED_PRECONDITION  the process was never initialized, or the job is not elastic
 *   UNAVAILABLE          the coordinator was away for longer than the outage limit
 *   others               as farandole_init
 * After an error other than FAILED_PRECONDITION, or an interruption while the present epoch is being left, the process
 * is not initialized; it may call farandole_rejoin again, or farandole_init. */
FARANDOLE_EXPORT int farandole_rejoin(int (*interrupted)(void));
/* 1 if the options of the last farandole_init are those of an elastic job. */
FARANDOLE_EXPORT int farandole_is_elastic(void);

/* The coordinator's last notice of workers that are to come or to go. Set `struct_bytes` to sizeof. */
typedef struct farandole_change {
  uint64_t struct_bytes;
  uint32_t serial; /* counts up within the epoch, from 1; 0: nothing was told in this epoch */
  int32_t joining; /* how many workers wait to join */
  int32_t leaving; /* how many ranks are to leave: their next farandole_rejoin gives CANCELLED */
  int32_t i_leave; /* 1: this rank is one of them */
} farandole_change;
/* Nothing follows from a change by itself: ranks agree on a point at which all of them call farandole_rejoin. */
FARANDOLE_EXPORT int farandole_change_wanted(farandole_change* change);
/* The workers and the reason of this thread's last farandole_change_wanted; "" where nothing was told. Valid until
 * its next. */
FARANDOLE_EXPORT const char* farandole_change_sentence(void);
/* Tells the coordinator that another program (preemption) will end this process after `grace_ms`: its rank is drained.
 * `reason` is one sentence, of which at most 1,024 bytes are kept. Not for signal handlers. The library says it again
 * in the next epoch, if the process takes part. FAILED_PRECONDITION: not initialized, or the job is not elastic */
FARANDOLE_EXPORT int farandole_depart(int64_t grace_ms, const char* reason);

/* 1 between a successful init and the begin of shutdown (also after the epoch has ended by an error). */
FARANDOLE_EXPORT int farandole_is_initialized(void);

/* This process's place in the job. All >= 0, or -FARANDOLE_FAILED_PRECONDITION before init. `local`: among the
 * job's workers of this host; `cross`: among the workers of the same local rank, one a host. */
FARANDOLE_EXPORT int farandole_rank(void);
FARANDOLE_EXPORT int farandole_size(void);
FARANDOLE_EXPORT int farandole_local_rank(void);
FARANDOLE_EXPORT int farandole_local_size(void);
FARANDOLE_EXPORT int farandole_cross_rank(void);
FARANDOLE_EXPORT int farandole_cross_size(void);
/* 1 if every host has equally many workers. */
FARANDOLE_EXPORT int farandole_is_homogeneous(void);
/* Number of the epoch; 0 for a job of size 1 without a coordinator. */
FARANDOLE_EXPORT int64_t farandole_epoch(void);

/* ---- Tensors in GPUs ------------------------------------------------------------------------------------------ */

/* From now on this thread's submissions are of tensors in the memory of GPU `gpu`, CUDA's number of it in this process:
 * they are there, and their outputs may be written, when `stream` (a cudaStream_t; NULL is the default stream) has done
 * what it was given before the submission. -1, as at first: in the host's memory. A worker has one GPU.
 *
 * Such a submission is complete when it is enqueued on the GPU. A wait for it makes the waiting thread's stream of that
 * GPU wait, not the thread: work that is enqueued in the stream afterwards sees the outputs. A thread without a stream
 * waits itself. farandole_poll tells whether all is done. If the epoch ends meanwhile, the outputs are worthless, and
 * the next call says so: a caller that keeps results looks at farandole_epoch_ended after the stream is done.
 *
 * A result of farandole_result lies in the GPU's memory too, and may be read by work that is enqueued in the stream
 * before the handle is released.
 *
 * Bools are 0 or 1 there. INVALID_ARGUMENT on GPUs: reductions of i16 and u16; Adasum; averages and factors of 8-bit
 * floats; their reductions before NCCL 2.24 or compute capability 9.0; a second GPU. FAILED_PRECONDITION where there is
 * no GPU, or no NCCL 2.18 or later (FARANDOLE_NCCL_LIBRARY), and before init. */
FARANDOLE_EXPORT int farandole_use_stream(int32_t gpu, void* stream);
/* How GPU tensors travel between the job's workers ("nccl 2.30.7"), if all workers can use the same way. Otherwise "",
 * and farandole_use_stream returns FAILED_PRECONDITION and says why. Valid until farandole_shutdown. */
FARANDOLE_EXPORT const char* farandole_gpu_transport(void);
/* The NCCL by which tensors in this process' GPU would travel, as ncclGetVersion has it (23007: 2.30.7), before init,
 * too. 0: by none, as there is no driver, or no NCCL 2.18 or later that may be used; and after fork(). No GPU is
 * touched. As farandole_init does, it takes the NCCL that the process has loaded, or else loads one, which stays. */
FARANDOLE_EXPORT int32_t farandole_nccl_version(void);
/* This thread's program submits several tensors one soon after the other: until any thread of this worker waits, the
 * library may keep each for up to 5 ms, so that they travel together. Worth it in GPUs, where each would be a
 * collective of its own. Rank 0 decides; on other ranks nothing happens. FAILED_PRECONDITION: before init. */
FARANDOLE_EXPORT int farandole_announce_more(void);
/* OK, or why the present epoch has ended: outputs received in it since may be worthless. */
FARANDOLE_EXPORT int farandole_epoch_ended(void);

/* Writes 32 bytes that only workers of this epoch can make of these `size` bytes and of `label`; so a worker knows what
 * nobody has changed on its way. All 0 if the epoch has one host. FAILED_PRECONDITION: not initialized. */
FARANDOLE_EXPORT int farandole_prove(const char* label, const void* bytes, int64_t size, void* proof);

/* ---- Groups (Horovod: process sets) --------------------------------------------------------------------------- */

/* Makes a group of ascending ranks. Collective: all ranks of the job call it with the same ranks, in the same order
 * among their calls. Blocks; `interrupted` as above. Group 0, all ranks, is always there. INVALID_ARGUMENT  ranks not
 * ascending or out of range, or other ranks asked for another group (both named) */
FARANDOLE_EXPORT int farandole_add_group(const int32_t* ranks, int32_t count, int32_t* group, int (*interrupted)(void));
/* Ends a group; collective as add. INVALID_ARGUMENT: group 0 or unknown. FAILED_PRECONDITION: it has pending calls. */
FARANDOLE_EXPORT int farandole_remove_group(int32_t group, int (*interrupted)(void));
/* This worker's position in the group, or -1; the group's size. -FARANDOLE_NOT_FOUND - 1 for an unknown group. */
FARANDOLE_EXPORT int farandole_group_rank(int32_t group);
FARANDOLE_EXPORT int farandole_group_size(int32_t group);

/* ---- Submissions ---------------------------------------------------------------------------------------------- */

/* A handle: > 0; negative: minus an error code, and nothing was submitted. It stays valid until farandole_release.
 *
 * With `wait_ms` 0 a call returns at once. With FARANDOLE_BRIEFLY it awaits the other ranks for 50 us where that has
 * paid of late: a result that is there on return saves waking a thread. Else it waits as farandole_wait does before it
 * returns the handle, complete or not: faster for a caller that would wait anyway, since its own thread does the work.
 *
 * `name` identifies the tensor on all ranks of the group; NULL or "": unnamed, paired in the order of submission.
 * A name may be pending once at a time in a group (INVALID_ARGUMENT else). Errors that only the ranks together can see
 * (disagreement: INVALID_ARGUMENT; a dead peer: ABORTED) come from the wait. `shape` has `ndim` numbers of elements;
 * NULL with ndim 0 is a scalar. At most 32 dimensions. `name`, `shape` and `splits` are read during the call only. */
#define FARANDOLE_BRIEFLY INT64_MIN
typedef int64_t farandole_handle;

/* output = postscale * reduce over ranks (prescale * input), added in the order of ranks, so that results are equal to
 * the bit on all ranks. */
FARANDOLE_EXPORT farandole_handle farandole_allreduce(const char* name, const void* input, void* output,
                                                      const int64_t* shape, int32_t ndim, int32_t dtype,
                                                      int32_t reduce_op, double prescale, double postscale,
                                                      int32_t group, int64_t wait_ms);

/* As farandole_allreduce and farandole_finish in one call, which is faster: the calling thread does the work from the
 * start. On FARANDOLE_STILL_PENDING `*handle` is to be finished; otherwise it is 0. */
FARANDOLE_EXPORT int farandole_allreduce_now(const char* name, const void* input, void* output, const int64_t* shape,
                                             int32_t ndim, int32_t dtype, int32_t reduce_op, double prescale,
                                             double postscale, int32_t group, int64_t timeout_ms,
                                             farandole_handle* handle);

/* One tensor of a grouped call. */
typedef struct farandole_tensor {
  const void* input;
  void* output;
  const int64_t* shape;
  int32_t ndim;
} farandole_tensor;

/* One tensor of a grouped call, as the call states it to the other ranks. */
typedef struct farandole_member {
  const int64_t* shape;
  int32_t ndim;
  int32_t dtype;
  int32_t is_on_gpu;
} farandole_member;

/* Describes one submission of a grouped call that needs several, since its tensors have several dtypes, or its
 * operation takes one tensor at a time. The first submission (`first` is 0) states all `count` tensors of the call, of
 * which there may be none; then the submission's own tensor is empty. A further one has the handle of the first, which
 * is not released yet: the library gives it to the ranks when the first is complete, and fails it if the first fails.
 * So ranks whose calls differ in number, dtypes or shapes of their tensors get INVALID_ARGUMENT, and nothing of the
 * call stays pending. NULL in place of a part: the submission is the whole call. */
typedef struct farandole_part {
  const farandole_member* members;
  int32_t count;
  farandole_handle first;
} farandole_part;

/* Several tensors of one dtype as one: all are reduced together, or none. */
FARANDOLE_EXPORT farandole_handle farandole_grouped_allreduce(const char* name, const farandole_tensor* tensors,
                                                              int32_t count, int32_t dtype, int32_t reduce_op,
                                                              double prescale, double postscale, int32_t group,
                                                              int64_t wait_ms, const farandole_part* part);

/* Concatenates the ranks' inputs along the first dimension, which may differ by rank (also be 0). A scalar counts as
 * shape [1]. The result is memory of the handle: see farandole_result. */
FARANDOLE_EXPORT farandole_handle farandole_allgather(const char* name, const void* input, const int64_t* shape,
                                                      int32_t ndim, int32_t dtype, int32_t group, int64_t wait_ms,
                                                      const farandole_part* part);

/* Gives each rank of the group some of this rank's rows (first dimension): the first splits[0] of them to the group's
 * rank 0, the next splits[1] to rank 1, ... `splits` has one number for each rank of the group, and may leave rows out;
 * NULL: all get equally many. The result, in the order of the ranks that it comes from, is memory of the handle, with
 * the rows that each has given: see farandole_result. A scalar, splits of another number or that take more rows than
 * there are, and without splits rows that are not a multiple of the ranks, are INVALID_ARGUMENT. */
FARANDOLE_EXPORT farandole_handle farandole_alltoall(const char* name, const void* input, const int64_t* shape,
                                                     int32_t ndim, int32_t dtype, const int64_t* splits,
                                                     int32_t splits_count, int32_t group, int64_t wait_ms);

/* Concatenates the ranks' inputs as farandole_allgather, but on `root` alone, an epoch rank that is in the group: the
 * others' results have no rows. See farandole_result. */
FARANDOLE_EXPORT farandole_handle farandole_gather(const char* name, const void* input, const int64_t* shape,
                                                   int32_t ndim, int32_t dtype, int32_t root, int32_t group,
                                                   int64_t wait_ms);

/* Gives each rank of the group its part of the rows (first dimension) of the input of `root`, an epoch rank that is in
 * the group: rows / size each, in the order of the group's ranks, and one more to the first rows % size of them. The
 * other ranks' inputs give only the element type and the shape, but for the first dimension, which may be 0. The
 * result is memory of the handle: see farandole_result. A scalar is INVALID_ARGUMENT. */
FARANDOLE_EXPORT farandole_handle farandole_scatter(const char* name, const void* input, const int64_t* shape,
                                                    int32_t ndim, int32_t dtype, int32_t root, int32_t group,
                                                    int64_t wait_ms);

/* output on every rank = input of the group's rank `root`, an epoch rank that is in the group. The root's output may
 * equal its input. */
FARANDOLE_EXPORT farandole_handle farandole_broadcast(const char* name, const void* input, void* output,
                                                      const int64_t* shape, int32_t ndim, int32_t dtype, int32_t root,
                                                      int32_t group, int64_t wait_ms);

/* Reduces as farandole_allreduce, and gives each rank of the group its part of the rows (first dimension): the group's
 * ranks get rows / size each, in their order, and the first rows % size of them one more. `output` has room for this
 * rank's part, and does not overlap the input. A scalar is INVALID_ARGUMENT. */
FARANDOLE_EXPORT farandole_handle farandole_reducescatter(const char* name, const void* input, void* output,
                                                          const int64_t* shape, int32_t ndim, int32_t dtype,
                                                          int32_t reduce_op, double prescale, double postscale,
                                                          int32_t group, int64_t wait_ms, const farandole_part* part);

/* This rank has no more data: until all ranks have joined, it submits nothing more (INVALID_ARGUMENT), and while the
 * handle is pending it takes part in what the others submit, in every group. To a reduction it contributes what changes
 * nothing (an average still divides by the size of the group), to an allgather, alltoall and gather no rows; what an
 * alltoall or scatter has for it is dropped. A broadcast, gather or scatter with it as root is INVALID_ARGUMENT on all.
 * Complete when all have joined; the rank that was the last is then in `*last_rank` (NULL: nowhere). This rank's
 * earlier submissions complete as usual. */
FARANDOLE_EXPORT farandole_handle farandole_join(int32_t* last_rank);

/* Complete when all ranks of the group have submitted it. */
FARANDOLE_EXPORT farandole_handle farandole_barrier(const char* name, int32_t group, int64_t wait_ms);

/* ---- Arenas --------------------------------------------------------------------------------------------------- */

/* Memory for tensors that ranks of one host reduce in place, several times as fast as others: an allreduce of one dtype
 * whose tensors lie in an arena at equal offsets on all ranks of its group, each its own output, is neither packed nor
 * copied. Elsewhere in an arena, tensors are as anywhere. While a submission is pending, peers write into its tensors.
 * An arena serves one epoch. If the epoch has ended in the middle of a submission, stopped peers may write into
 * it later: copy the tensors that must live. */
typedef struct farandole_arena farandole_arena;

/* Makes an arena of `bytes` zero bytes, at a page's begin, on each rank of the group, all of which call this with the
 * same name and bytes, in the same order among their calls. Blocks; `interrupted` as in farandole_init. A rank that can
 * use none asks for 0 bytes, and then none of them gets one. On all ranks alike:
 *   INVALID_ARGUMENT     the ranks ask for different numbers of bytes (two ranks and both numbers are named)
 *   UNIMPLEMENTED        the group's ranks are on several hosts, or exchange bulk data over the network
 *   RESOURCE_EXHAUSTED   a rank (named) has not so much memory left */
FARANDOLE_EXPORT int farandole_arena_create(const char* name, int64_t bytes, int32_t group, farandole_arena** arena,
                                            int (*interrupted)(void));
/* This rank's memory of it. */
FARANDOLE_EXPORT void* farandole_arena_address(const farandole_arena* arena);
/* Unmaps the memory, which no tensor may use any more, also after farandole_shutdown. Each rank does so by itself. */
FARANDOLE_EXPORT void farandole_arena_release(farandole_arena* arena);

/* ---- Completion ----------------------------------------------------------------------------------------------- */

/* 1: complete (well or not), 0: pending, negative: minus a code (handle not known: INVALID_ARGUMENT). Drives pending
 * work that is ready. */
FARANDOLE_EXPORT int farandole_poll(farandole_handle handle);
/* Waits until the handle is complete, at most `timeout_ms` (negative: without limit): FARANDOLE_OK,
 * FARANDOLE_STILL_PENDING, or the submission's error. The waiting thread does the work. Does not release. */
FARANDOLE_EXPORT int farandole_wait(farandole_handle handle, int64_t timeout_ms);
/* As farandole_wait, and releases the handle unless it is still pending. */
FARANDOLE_EXPORT int farandole_finish(farandole_handle handle, int64_t timeout_ms);
/* For a thread that completes what others have submitted: waits until the number of submissions that have completed,
 * well or not, is another than `*completions`, at most `timeout_ms` (negative: without limit), and writes it. It counts
 * from farandole_init or farandole_rejoin. FARANDOLE_OK or FARANDOLE_STILL_PENDING. The thread does the work meanwhile.
 * Those that are counted are complete for a farandole_poll that follows. */
FARANDOLE_EXPORT int farandole_wait_for_completion(uint64_t* completions, int64_t timeout_ms);
/* Result of a complete allgather, alltoall, gather or scatter: memory until the handle is released, its bytes, the rows
 * that each group rank contributed (`rows`, group size numbers, may be NULL). FAILED_PRECONDITION: not complete,
 * failed, or none of them. */
FARANDOLE_EXPORT int farandole_result(farandole_handle handle, void** data, int64_t* bytes, int64_t* rows);
/* Copies such a result to `output`, which has room for its bytes and lies where the tensors do: in a GPU by the
 * thread's stream (farandole_use_stream), which need not have come so far on return. As farandole_result. */
FARANDOLE_EXPORT int farandole_copy_result(farandole_handle handle, void* output);
/* Forgets the handle and frees its result. A pending submission goes on; its memory stays borrowed until then. */
FARANDOLE_EXPORT void farandole_release(farandole_handle handle);

/* ---- Checkpoints ---------------------------------------------------------------------------------------------- */

/* Asks for the right to write checkpoint `name` at `step` into `directory` on this host; only rank 0 gets it. On
 * success `*path` is the temporary file to write (until the thread's next call); `*checkpoint`, not 0, names it in the
 * following calls. One may be open at a time, and none outlives its epoch.
 *   PERMISSION_DENIED   not rank 0
 *   ALREADY_EXISTS      there is one of this name and step, and `replace` is 0; its path is in the text. Else
 *                       the new one takes its place when it is committed, and its file is removed
 *   FAILED_PRECONDITION another is open
 *   RESOURCE_EXHAUSTED, UNAVAILABLE: the directory cannot be written, or the coordinator not be reached */
FARANDOLE_EXPORT int farandole_checkpoint_begin(const char* directory, const char* name, int64_t step,
                                                const char* extension, int replace, int64_t* checkpoint,
                                                const char** path);
/* Checksums, syncs and renames the written file, and has the coordinator put it into the catalogue: when this returns
 * OK, the checkpoint exists, as `*path` (valid until the thread's next call). After an error the catalogue is asked
 * once more: the file is removed where that says that it was not committed, and stays where it does not answer.
 * ABORTED: a newer writer fenced this one, or it is not open. Others: it cannot be kept; the text says if it stays. */
FARANDOLE_EXPORT int farandole_checkpoint_commit(int64_t checkpoint, const char** path);
/* The writing failed, for `cause` (the writer's words): removes the temporary file and returns the sentence for it.
 *   RESOURCE_EXHAUSTED: the disk is full; ABORTED: the epoch ended, or it is not open; UNAVAILABLE otherwise */
FARANDOLE_EXPORT int farandole_checkpoint_fail(int64_t checkpoint, const char* cause);
FARANDOLE_EXPORT void farandole_checkpoint_abandon(int64_t checkpoint); /* Removes the file, if it is open. */
/* Newest checkpoint of `name` ("" or NULL: of any) in the catalogue (without a coordinator: in `directory`), or the one
 * at `step` (-1: newest). NOT_FOUND: none. The path lives until the thread's next call. */
FARANDOLE_EXPORT int farandole_checkpoint_find(const char* directory, const char* name, int64_t step, const char** path,
                                               int64_t* found_step);
/* Whether people want a checkpoint now (`farandole job checkpoint`): `*requested` is 1 once a request, at the same call
 * on all ranks, which make these calls at the same points of the program. Most calls only count. Two a second, and
 * every 32nd at least, are a small allreduce: all ranks agree on which. A checkpoint that is begun afterwards ends the
 * request, also if it fails. 0 while another rank has joined; FAILED_PRECONDITION: this one has. `interrupted` as in
 * farandole_init; make an interrupted call again. ABORTED: the epoch has ended; the next one is told again. */
FARANDOLE_EXPORT int farandole_checkpoint_requested(int32_t* requested, int (*interrupted)(void));

/* ---- Timeline ---------------------------------------------------------------------------------------------------- */

/* Records from now on what tensors wait for, in a file for chrome://tracing or Perfetto: `path` on rank 0, and on the
 * others with ".rank1" and so on before its extension. Replaces the file; another one that is recorded ends, and
 * the same one goes on. `mark_cycles`, 0 or 1: marks the beginning of each batch. FAILED_PRECONDITION: not initialized;
 * INVALID_ARGUMENT: the file cannot be written. */
FARANDOLE_EXPORT int farandole_start_timeline(const char* path, int mark_cycles);
/* Ends the file, if one is recorded; shutdown does it, too. */
FARANDOLE_EXPORT int farandole_stop_timeline(void);

/* ---- Numbers and sections of the program ----------------------------------------------------------------------- */

/* farandole_log's `step`: one more than the last one of this name, from 0. */
#define FARANDOLE_NEXT_STEP INT64_MIN
/* Logs a number of the program (its loss, say) for the job's curves (docs/logging.md). `name`: 1 to 128 bytes of UTF-8.
 * `by_rank`, 0: the values of a step are averaged, over ranks and calls; 1: each rank has a curve of its own. Never
 * waits: it is sent within half a second; of more than 8,000 in that time, some are lost, and counted. A job of size 1
 * without a coordinator keeps none. FAILED_PRECONDITION: not initialized; INVALID_ARGUMENT: the name cannot be one;
 * RESOURCE_EXHAUSTED: it is the 257th name of this process. */
FARANDOLE_EXPORT int farandole_log(const char* name, double value, int64_t step, int by_rank);
/* Begins a section of the program ("data"), for the diagnosis (docs/diagnosis.md); gives its number. `name`: 1 to 64
 * bytes of UTF-8; else minus INVALID_ARGUMENT. 0: no worker, or 64 open ones: nothing counts. Any thread ends it. */
FARANDOLE_EXPORT int64_t farandole_section_begin(const char* name);
FARANDOLE_EXPORT void farandole_section_end(int64_t section);

/* ---- Stacks --------------------------------------------------------------------------------------------------- */

/* Writes the threads' stacks in the form of Python's faulthandler, `bytes` at most, and returns how many. A first line
 * may be "about: SENTENCE". Called on a thread of the library's, which may wait for the interpreter's lock. */
typedef int64_t (*farandole_stack_reader)(char* text, int64_t bytes);
/* Registers how stacks are read for `farandole diagnose`; NULL: no more. `signal`, if not 0: the number of a signal
 * whose handler writes them to `fd`, a file in memory, without any lock; the library calls the handler, and sends no
 * signal. `main_thread`: pthread_self() of the main thread. */
FARANDOLE_EXPORT int farandole_set_stack_source(farandole_stack_reader read, int signal, int fd, uint64_t main_thread);

/* ---- Counters ------------------------------------------------------------------------------------------------- */

/* This worker's work since init. Set `struct_bytes` to sizeof. */
typedef struct farandole_counters {
  uint64_t struct_bytes;
  uint64_t submissions;          /* accepted */
  uint64_t completions;          /* completed, well or not */
  uint64_t batches;              /* collectives run; submissions / batches is the fusion */
  uint64_t bytes;                /* of tensors given to them */
  uint64_t coordinator_messages; /* about tensors, sent and received: stands still in the steady state */
  uint64_t engine_ns;            /* time in which a thread worked or waited inside collectives */
  uint64_t wait_ns;              /* time that callers spent in wait, finish; estimated where waits are short */
  uint64_t arena_bytes;          /* of `bytes`, those that were reduced in place in arenas */
} farandole_counters;
FARANDOLE_EXPORT int farandole_read_counters(farandole_counters* counters);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FARANDOLE_WORKER_FARANDOLE_H_ */
