#include <immintrin.h>

#include "worker/kernels/kernel_table.h"
#include "worker/kernels/vector_kernels.h"

namespace farandole {
namespace {

struct Avx2Level : PortablePartial {
  using Floats = VectorTypes<32>::Floats;
  using Words = VectorTypes<32>::Words;
  using Half = VectorTypes<32>::Half;
  using Bytes = VectorTypes<32>::Bytes;
  static constexpr int kBytes = 32;

  static Floats WidenF16(Half half) { return (Floats)_mm256_cvtph_ps((__m128i)half); }
  static Half NarrowF16(Floats floats) {
    return (Half)_mm256_cvtps_ph((__m256)floats, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Floats WidenBF16(Half half) { return (Floats)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)half), 16); }
  static Half NarrowBF16(Floats floats) {
    const __m256i rounded = (__m256i)RoundedToBF16<Words>(floats);
    // Packs within each 128-bit half; the permutation brings those together.
    const __m256i packed = _mm256_packus_epi32(rounded, rounded);
    return (Half)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0)));
  }
  static Half WidenBytes(Bytes bytes) { return (Half)_mm_cvtepu8_epi16(_mm_cvtsi64_si128((int64_t)bytes)); }
  static Bytes NarrowBytes(Words words) {
    const __m128i shorts =
        _mm_packus_epi32(_mm256_castsi256_si128((__m256i)words), _mm256_extracti128_si256((__m256i)words, 1));
    return (Bytes)_mm_cvtsi128_si64(_mm_packus_epi16(shorts, shorts));
  }
};

constexpr KernelTable kAvx2Kernels = MakeTable<Avx2Level>("avx2");

}  // namespace

const KernelTable& Avx2Kernels() { return kAvx2Kernels; }

}  // namespace farandole
