#include "worker/transport/hosts/lone_host_part.h"

#include <algorithm>
#include <cstring>

#include "worker/kernels/scale.h"

namespace farandole {

LoneHostPart::LoneHostPart(const Collective& collective, const ExchangeShares& shares, std::vector<char>* packed)
    : collective_(collective),
      shares_(shares),
      walk_(collective.fragments, SizeOf(collective.dtype)),
      element_bytes_(static_cast<int64_t>(SizeOf(collective.dtype))),
      is_direct_(collective.fragments.size() == 1) {
  if (is_direct_) return;
  const int64_t places = std::min(kPlaces, shares.chunks());
  const size_t bytes = static_cast<size_t>(places * shares.most_in_chunk() * element_bytes_);
  if (packed->size() < bytes) packed->resize(bytes);
  packed_ = packed->data();
}

void LoneHostPart::Contribute(int64_t chunk) {
  const Piece piece = shares_.ChunkOf(chunk);
  char* place = ResultPlace(chunk, piece.offset);
  if (!collective_.contributes) return FillIdentity(collective_.dtype, collective_.reduce_op, place, piece.count);
  if (is_direct_ && collective_.prescale == 1.0) return;
  walk_.ForEach(piece.offset, piece.offset + piece.count, [&](const char* input, char*, int64_t from, int64_t count) {
    ScaleCopy(collective_.dtype, input, place + from * element_bytes_, count, collective_.prescale);
  });
}

const char* LoneHostPart::Combined(int64_t chunk, int64_t element) {
  if (!is_direct_ || collective_.prescale != 1.0) return ResultPlace(chunk, element);
  return static_cast<const char*>(collective_.fragments[0].input) + element * element_bytes_;
}

char* LoneHostPart::ResultPlace(int64_t chunk, int64_t element) {
  if (is_direct_) return static_cast<char*>(collective_.fragments[0].output) + element * element_bytes_;
  const int64_t place = chunk % kPlaces * shares_.most_in_chunk() + element - shares_.ChunkOf(chunk).offset;
  return packed_ + place * element_bytes_;
}

void LoneHostPart::Collect(int64_t chunk) {
  collected_ = chunk + 1;
  if (is_direct_ || !collective_.contributes) return;
  const Piece piece = shares_.ChunkOf(chunk);
  const char* place = ResultPlace(chunk, piece.offset);
  walk_.ForEach(piece.offset, piece.offset + piece.count, [&](const char*, char* output, int64_t from, int64_t count) {
    std::memcpy(output, place + from * element_bytes_, static_cast<size_t>(count * element_bytes_));
  });
}

}  // namespace farandole
