/* The control plane of Farandole by the worker library: calls to a coordinator's services, MonitorService and
 * AdminService of proto/farandole/v1. The rules of farandole.h hold, but that nothing here needs or touches the
 * process's worker: a program may watch jobs and take no part in any.
 */
#ifndef FARANDOLE_WORKER_FARANDOLE_CLIENT_H_
#define FARANDOLE_WORKER_FARANDOLE_CLIENT_H_

#include "worker/farandole.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A connection to one coordinator. Several threads may make calls by it. */
typedef struct farandole_client farandole_client;

/* Where a coordinator is. Set `struct_bytes` to sizeof; NULL and "" are the same. */
typedef struct farandole_client_options {
  uint64_t struct_bytes;
  const char* address; /* HOST:PORT */
  int32_t use_tls;     /* 1: speak TLS. 0 is for a coordinator on this host: elsewhere the token would travel in the
                          clear. */
  const char* ca_file; /* certificates (PEM) that the coordinator's must descend from; "": those of the system */
  const char*
      cert_file;        /* the certificate (PEM) by which this program proves itself to the coordinator where a call has
                           no token, or to a proxy that wants one; a new one in the file counts from the next call on;
                           "": none */
  const char* key_file; /* that certificate's key (PEM), which not every user of the host may read */
  const char* server_name;       /* the name in the coordinator's certificate; "": the host of the address */
  const char* coordinator_users; /* without TLS: users of this host, besides root and this program's own, whose programs
                                    may have the coordinator's port; names or numbers with commas between them, "*":
                                    anyone; "": farandole */
} farandole_client_options;

/* Reads the files; connects with the first call. INVALID_ARGUMENT: an option is not valid, or a file holds no
 * certificate. NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE: a file cannot be read. Each is named. */
FARANDOLE_EXPORT int farandole_client_open(const farandole_client_options* options, farandole_client** client);
/* No call may run or come. */
FARANDOLE_EXPORT void farandole_client_close(farandole_client* client);

/* One call. Set `struct_bytes` to sizeof. */
typedef struct farandole_client_request {
  uint64_t struct_bytes;
  const char* method;       /* "MonitorService/GetJob" */
  const void* message;      /* the method's request, encoded as its proto says */
  int64_t message_bytes;    /* AdminService: with an idempotency key, so that a repeated call changes nothing twice */
  const char* token;        /* "": none */
  const char* token_origin; /* where the token was read, for people: "/path"; may be "" */
  const char* refusal;      /* the deed of a coordinator that answers with an error: "refused to show job mnist" */
  int64_t patience_ms;      /* for how long the call is made again while the coordinator is away; 0: one attempt. An
                               attempt waits 10 s for its answer. */
} farandole_client_request;

/* Makes the call. `*answer`, of `*answer_bytes`, is the method's response, encoded; it lives until the thread's next
 * call. `interrupted` as in farandole_init. Errors are the method's, and
 *   UNAVAILABLE       the coordinator was unreachable or silent as long as patience goes
 *   UNAUTHENTICATED   the token is not known, or TLS does not prove one side to the other
 *   INVALID_ARGUMENT  a field is NULL that may not, or the token has characters that a header cannot carry
 *   UNIMPLEMENTED     the coordinator is of another version, or another program
 *   ABORTED           interrupted */
FARANDOLE_EXPORT int farandole_client_call(farandole_client* client, const farandole_client_request* request,
                                           const void** answer, int64_t* answer_bytes, int (*interrupted)(void));

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FARANDOLE_WORKER_FARANDOLE_CLIENT_H_ */
