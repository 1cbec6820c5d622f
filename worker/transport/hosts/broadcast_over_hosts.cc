#include "worker/transport/hosts/broadcast_over_hosts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/collectives/schedules/binomial_tree_broadcast.h"

namespace farandole {

BroadcastOverHosts::BroadcastOverHosts(Transport* transport, ShmTransport* local, const Collective& collective,
                                       const GroupShape& shape, std::vector<int> locals, std::vector<char>* packed)
    : transport_(transport),
      local_(local),
      collective_(collective),
      locals_(std::move(locals)),
      own_(shape.local()),
      walk_(collective.fragments, SizeOf(collective.dtype)),
      element_bytes_(static_cast<int64_t>(SizeOf(collective.dtype))),
      chunk_count_(static_cast<int64_t>(kStageBytes) / element_bytes_),
      chunks_((collective.count + chunk_count_ - 1) / chunk_count_),
      exchanges_(kAhead) {
  FindPlace(shape);
  for (Exchange& exchange : exchanges_) exchange.out.resize(children_.size());
  if (collective.fragments.size() == 1) {
    const Fragment& fragment = collective.fragments[0];
    direct_ = static_cast<char*>(IsRoot() ? const_cast<void*>(fragment.input) : fragment.output);
  } else if (IsHead()) {
    const size_t bytes = static_cast<size_t>(std::min(kAhead, chunks_)) * kStageBytes;
    if (packed->size() < bytes) packed->resize(bytes);
    packed_ = packed->data();
  }
}

void BroadcastOverHosts::FindPlace(const GroupShape& shape) {
  const int root_host = shape.HostOf(collective_.root);
  std::vector<int> heads = shape.Column(0);
  heads[root_host] = collective_.root;
  head_ = heads[shape.host()] - shape.first();
  if (!IsHead()) return;
  const TreePlace place = BinomialTreePlace(shape.host(), shape.hosts(), root_host);
  if (place.parent >= 0) parent_ = collective_.ranks[heads[place.parent]];
  for (const int child : place.children) children_.push_back(collective_.ranks[heads[child]]);
}

int64_t BroadcastOverHosts::CountOf(int64_t chunk) const {
  return std::min(chunk_count_, collective_.count - Begin(chunk));
}

char* BroadcastOverHosts::ChunkAt(int64_t chunk) {
  if (direct_ != nullptr) return direct_ + Begin(chunk) * element_bytes_;
  return packed_ + chunk % kAhead * static_cast<int64_t>(kStageBytes);
}

bool BroadcastOverHosts::HasSent(int64_t chunk) {
  if (chunk < 0) return true;
  const std::vector<Transfer>& out = ExchangeOf(chunk).out;
  return std::all_of(out.begin(), out.end(), [](const Transfer& transfer) { return transfer.complete; });
}

void BroadcastOverHosts::StartReceives() {
  while (received_ < chunks_ && received_ < done_ + kAhead && HasSent(received_ - kAhead)) {
    Transfer& in = ExchangeOf(received_).in;
    in = Transfer();
    if (IsRoot()) {
      in.complete = true;
    } else {
      in.peer = parent_;
      in.data = ChunkAt(received_);
      in.bytes = static_cast<size_t>(CountOf(received_) * element_bytes_);
      transport_->Receive(&in);
    }
    ++received_;
    moved_ = true;
  }
}

void BroadcastOverHosts::SendOn(int64_t chunk) {
  if (IsRoot() && direct_ == nullptr) {
    walk_.ForEach(Begin(chunk), Begin(chunk) + CountOf(chunk),
                  [&](const char* input, char*, int64_t from, int64_t count) {
                    std::memcpy(ChunkAt(chunk) + from * element_bytes_, input, count * element_bytes_);
                  });
  }
  Exchange& exchange = ExchangeOf(chunk);
  for (size_t i = 0; i < children_.size(); ++i) {
    exchange.out[i] = Transfer();
    exchange.out[i].peer = children_[i];
    exchange.out[i].data = ChunkAt(chunk);
    exchange.out[i].bytes = static_cast<size_t>(CountOf(chunk) * element_bytes_);
    transport_->Send(&exchange.out[i]);
  }
}

void BroadcastOverHosts::Say(std::atomic<uint64_t>& word, int64_t chunk) {
  word.store(ShmTransport::ProgressWord(collective_.sequence, static_cast<uint64_t>(chunk) + 1));
}

void BroadcastOverHosts::Show(int64_t chunk) {
  if (locals_.size() == 1) return;
  const uint64_t number = static_cast<uint64_t>(chunk);
  ShmLayout::Progress& progress = local_->progress(local_->rank());
  std::memcpy(local_->Stage(local_->rank(), collective_.sequence, number), ChunkAt(chunk),
              CountOf(chunk) * element_bytes_);
  local_->UseStage(collective_.sequence, number, locals_);
  Say(progress.staged, chunk);
  Say(progress.consumed, chunk);
  local_->Ring(locals_);
}

void BroadcastOverHosts::Keep(int64_t chunk) {
  if (direct_ != nullptr && !IsRoot()) return;
  walk_.ForEach(Begin(chunk), Begin(chunk) + CountOf(chunk),
                [&](const char* input, char* output, int64_t from, int64_t count) {
                  const char* source = IsRoot() ? input : ChunkAt(chunk) + from * element_bytes_;
                  if (output != source) std::memcpy(output, source, count * element_bytes_);
                });
}

bool BroadcastOverHosts::AdvanceHead() {
  StartReceives();
  if (sent_on_ < received_ && ExchangeOf(sent_on_).in.complete) {
    SendOn(sent_on_++);
    return true;
  }
  const bool can_show = locals_.size() == 1 || local_->StageIsFree(collective_.sequence, static_cast<uint64_t>(done_));
  if (done_ == sent_on_ || !can_show) return false;
  Show(done_);
  Keep(done_++);
  return true;
}

bool BroadcastOverHosts::AdvanceReader() {
  const int head = locals_[static_cast<size_t>(head_)];
  const uint64_t word = ShmTransport::ProgressWord(collective_.sequence, static_cast<uint64_t>(done_) + 1);
  if (done_ == chunks_ || local_->progress(head).staged.load() < word) return false;
  const char* stage = local_->Stage(head, collective_.sequence, static_cast<uint64_t>(done_));
  walk_.ForEach(Begin(done_), Begin(done_) + CountOf(done_),
                [&](const char*, char* output, int64_t from, int64_t count) {
                  std::memcpy(output, stage + from * element_bytes_, count * element_bytes_);
                });
  Say(local_->progress(local_->rank()).consumed, done_++);
  local_->Ring(absl::MakeConstSpan(&head, 1));
  return true;
}

absl::StatusOr<bool> BroadcastOverHosts::Advance() {
  const absl::StatusOr<bool> progressed = transport_->Progress();
  if (!progressed.ok()) return progressed.status();
  if (IsRoot() && !collective_.contributes) {
    return absl::InternalError(absl::StrCat("batch ", collective_.sequence, ": rank ",
                                            collective_.ranks[collective_.root],
                                            " is the root of a broadcast but has joined and has no data"));
  }
  moved_ = *progressed;
  if (IsHead() ? AdvanceHead() : AdvanceReader()) moved_ = true;
  if (done_ < chunks_) return false;
  for (int64_t chunk = std::max<int64_t>(0, chunks_ - kAhead); IsHead() && chunk < chunks_; ++chunk) {
    if (!HasSent(chunk)) return false;
  }
  return true;
}

}  // namespace farandole
