#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_SUBMISSION_POST_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_SUBMISSION_POST_H_

#include <cstddef>

#include "worker/engine/submissions/book/submission.h"
#include "worker/order/ready_channel.h"

namespace farandole {

// How a submission is stated to the other ranks, and how a small one's data travels with that statement.

// Whether the data is of a kind that may travel in posts and entries, or in the rendezvous.
bool MayTravelInline(const Submission& submission);
// Whether it is also small enough for posts and entries. A barrier has no bytes.
bool TravelsInline(const Submission& submission);
// Writes this rank's contribution, prescaled, and returns its bytes. `position` is that of the rank in the group.
size_t WritePayload(const Submission& submission, int position, char* payload);
// Copies an inline result to the outputs of the submission's tensors.
void ScatterResult(const Submission& submission, const char* from);
// The post of a submission that has a slot. `arenas`: where tensors may be reduced in place; null: nowhere.
Post PostOf(const Submission& submission, int position, const ArenaTable* arenas);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_SUBMISSION_POST_H_
