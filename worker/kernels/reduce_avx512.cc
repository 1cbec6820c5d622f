#include <immintrin.h>

#include "worker/kernels/kernel_table.h"
#include "worker/kernels/vector_kernels.h"

namespace farandole {
namespace {

// Masked forms are used throughout: the unmasked ones read an uninitialized
// variable in GCC 12's header, of which it then warns.
struct Avx512Level {
  using Floats = VectorTypes<64>::Floats;
  using Words = VectorTypes<64>::Words;
  using Half = VectorTypes<64>::Half;
  using Bytes = VectorTypes<64>::Bytes;
  static constexpr int kBytes = 64;
  static constexpr __mmask16 kAll = 0xffff;

  static Floats WidenF16(Half half) { return (Floats)_mm512_maskz_cvtph_ps(kAll, (__m256i)half); }
  static Half NarrowF16(Floats floats) {
    return (Half)_mm512_maskz_cvtps_ph(kAll, (__m512)floats, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Floats WidenBF16(Half half) { return (Floats)((Words)_mm512_maskz_cvtepu16_epi32(kAll, (__m256i)half) << 16); }
  static Half NarrowBF16(Floats floats) {
    return (Half)_mm512_maskz_cvtepi32_epi16(kAll, (__m512i)RoundedToBF16<Words>(floats));
  }
  static Half WidenBytes(Bytes bytes) { return (Half)_mm256_maskz_cvtepu8_epi16(kAll, (__m128i)bytes); }
  static Bytes NarrowBytes(Words words) { return (Bytes)_mm512_maskz_cvtepi32_epi8(kAll, (__m512i)words); }

  template <typename Stored>
  static Stored LoadPartial(const char* from, int64_t bytes) {
    const uint64_t mask = (uint64_t{1} << bytes) - 1;
    if constexpr (sizeof(Stored) == 64) {
      return (Stored)_mm512_maskz_loadu_epi8(mask, from);
    } else if constexpr (sizeof(Stored) == 16) {
      return (Stored)_mm_maskz_loadu_epi8(static_cast<__mmask16>(mask), from);
    } else {
      return (Stored)_mm256_maskz_loadu_epi8(static_cast<__mmask32>(mask), from);
    }
  }
  template <typename Stored>
  static void StorePartial(char* to, Stored stored, int64_t bytes) {
    const uint64_t mask = (uint64_t{1} << bytes) - 1;
    if constexpr (sizeof(Stored) == 64) {
      _mm512_mask_storeu_epi8(to, mask, (__m512i)stored);
    } else if constexpr (sizeof(Stored) == 16) {
      _mm_mask_storeu_epi8(to, static_cast<__mmask16>(mask), (__m128i)stored);
    } else {
      _mm256_mask_storeu_epi8(to, static_cast<__mmask32>(mask), (__m256i)stored);
    }
  }
};

constexpr KernelTable kAvx512Kernels = MakeTable<Avx512Level>("avx512");

}  // namespace

const KernelTable& Avx512Kernels() { return kAvx512Kernels; }

}  // namespace farandole
