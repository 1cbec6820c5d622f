#include "worker/engine/submissions/book/submission_post.h"

#include <cstring>

#include "worker/kernels/scale.h"

namespace farandole {

bool MayTravelInline(const Submission& submission) {
  return submission.gpu == nullptr && TraitsOf(submission.op).may_be_inline &&
         submission.reduce_op != ReduceOp::kAdasum;
}

bool TravelsInline(const Submission& submission) {
  return submission.bytes() <= kInlineBytes && MayTravelInline(submission);
}

size_t WritePayload(const Submission& submission, int position, char* payload) {
  if (!Reduces(submission.op) && position != submission.root) return 0;
  size_t bytes = 0;
  for (const Fragment& fragment : submission.fragments) {
    // Rounded to the dtype here, as transports do it. Broadcasts have no scale.
    ScaleCopy(submission.dtype, fragment.input, payload + bytes, fragment.count, submission.prescale);
    bytes += fragment.count * SizeOf(submission.dtype);
  }
  return bytes;
}

void ScatterResult(const Submission& submission, const char* from) {
  for (const Fragment& fragment : submission.fragments) {
    const size_t fragment_bytes = fragment.count * SizeOf(submission.dtype);
    if (fragment.output != nullptr) std::memcpy(fragment.output, from, fragment_bytes);
    from += fragment_bytes;
  }
}

Post PostOf(const Submission& submission, int position, const ArenaTable* arenas) {
  using Counts = OpTraits::Counts;
  const OpTraits& traits = TraitsOf(submission.op);
  Post post;
  post.slot = submission.slot;
  post.op = submission.op;
  post.dtype = submission.dtype;
  post.signature = submission.signature;
  post.count = submission.count;
  if (submission.gpu != nullptr) post.flags |= kOnGpus;
  if (submission.ready.is_captured()) post.flags |= kIsCaptured;
  if (traits.counts == Counts::kExchanged) {
    post.count = submission.row_elements();
  } else if (traits.allocates_result && submission.row_elements() == 0) {
    post.flags |= kRowsAreEmpty;
    post.count = submission.rows();
  }
  post.root = submission.root;
  post.reduce_op = submission.reduce_op;
  post.prescale = submission.prescale;
  post.postscale = submission.postscale;
  post.is_inline = TravelsInline(submission) ? 1 : 0;
  if (post.is_inline != 0) {
    post.payload_bytes = static_cast<uint16_t>(WritePayload(submission, position, post.payload));
  } else if (traits.counts == Counts::kShares) {
    post.set_rows(submission.rows());
  } else if (submission.op == OpType::kAllreduce && submission.reduce_op != ReduceOp::kAdasum && arenas != nullptr) {
    post.set_placement(arenas->PlacementOf(submission.fragments, SizeOf(submission.dtype)));
  }
  return post;
}

}  // namespace farandole
