#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_TEST_REQUESTS_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_TEST_REQUESTS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "worker/engine/submissions/book/submission.h"

namespace farandole {

// A join, for tests, whose answer goes to `last`. `view` is to live until the request is submitted.
inline Request JoinRequest(int32_t* last, TensorView* view) {
  view->output = last;
  Request request;
  request.op = OpType::kJoin;
  request.dtype = DType::kI32;
  request.tensors = absl::MakeConstSpan(view, 1);
  return request;
}

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_TEST_REQUESTS_H_
