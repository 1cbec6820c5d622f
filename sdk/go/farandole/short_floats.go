package farandole

import "math"

// Float16 holds the bits of an IEEE 754 binary16 number.
type Float16 uint16

// BFloat16 holds the bits of a bfloat16 number: the upper half of a float32.
type BFloat16 uint16

// Float8E4M3 holds the bits of a float8_e4m3fn number: 4 bits of exponent, 3 of mantissa, no infinities, at most 448.
type Float8E4M3 uint8

// Float8E5M2 holds the bits of a float8_e5m2 number: 5 bits of exponent, 2 of mantissa, at most 57,344.
type Float8E5M2 uint8

// ToFloat16 rounds to the nearest Float16, of two to the even one; beyond 65,504 it is infinite.
func ToFloat16(value float32) Float16 { return Float16(binary16.pack(value)) }

// Float32 gives the number exactly.
func (f Float16) Float32() float32 { return binary16.unpack(uint32(f)) }

// ToBFloat16 rounds to the nearest BFloat16, of two to the even one.
func ToBFloat16(value float32) BFloat16 { return BFloat16(brain.pack(value)) }

// Float32 gives the number exactly.
func (f BFloat16) Float32() float32 { return brain.unpack(uint32(f)) }

// ToFloat8E4M3 rounds to the nearest Float8E4M3, of two to the even one; what rounds to more than 448, and infinity, is
// NaN.
func ToFloat8E4M3(value float32) Float8E4M3 { return Float8E4M3(e4m3fn.pack(value)) }

// Float32 gives the number exactly.
func (f Float8E4M3) Float32() float32 { return e4m3fn.unpack(uint32(f)) }

// ToFloat8E5M2 rounds to the nearest Float8E5M2, of two to the even one; what rounds to more than 57,344 is infinite.
func ToFloat8E5M2(value float32) Float8E5M2 { return Float8E5M2(e5m2.pack(value)) }

// Float32 gives the number exactly.
func (f Float8E5M2) Float32() float32 { return e5m2.unpack(uint32(f)) }

// format describes a floating-point format with a sign and so many bits.
type format struct {
	exponentBits, mantissaBits int
	// isFinite: the greatest exponent has numbers too, and only the greatest mantissa there is NaN.
	isFinite bool
}

var (
	binary16 = format{exponentBits: 5, mantissaBits: 10}
	brain    = format{exponentBits: 8, mantissaBits: 7}
	e4m3fn   = format{exponentBits: 4, mantissaBits: 3, isFinite: true}
	e5m2     = format{exponentBits: 5, mantissaBits: 2}
)

func (f format) bias() int { return 1<<(f.exponentBits-1) - 1 }

// infinity gives the bits after the last finite number: of infinity, or of NaN if there is none.
func (f format) infinity() uint32 {
	if f.isFinite {
		return 1<<(f.exponentBits+f.mantissaBits) - 1
	}
	return (1<<f.exponentBits - 1) << f.mantissaBits
}

func (f format) nan() uint32 {
	if f.isFinite {
		return f.infinity()
	}
	return f.infinity() | 1<<(f.mantissaBits-1)
}

func (f format) unpack(bits uint32) float32 {
	width := f.exponentBits + f.mantissaBits
	sign := float32(1)
	if bits>>width&1 == 1 {
		sign = -1
	}
	magnitude := bits & (1<<width - 1)
	if magnitude >= f.infinity() {
		if magnitude == f.infinity() && !f.isFinite {
			return sign * float32(math.Inf(1))
		}
		return float32(math.NaN())
	}
	exponent := int(magnitude >> f.mantissaBits)
	mantissa := int(magnitude & (1<<f.mantissaBits - 1))
	if exponent == 0 {
		exponent = 1
	} else {
		mantissa += 1 << f.mantissaBits
	}
	// Scaled by a float32's own powers of two: exact also where the number is subnormal.
	number := float32(math.Ldexp(float64(mantissa), exponent-f.bias()-f.mantissaBits))
	return float32(math.Copysign(float64(number), float64(sign)))
}

func (f format) pack(value float32) uint32 {
	sign := uint32(0)
	if math.Signbit(float64(value)) {
		sign = 1 << (f.exponentBits + f.mantissaBits)
	}
	magnitude := math.Abs(float64(value))
	switch {
	case math.IsNaN(magnitude):
		return sign | f.nan()
	case math.IsInf(magnitude, 1):
		return sign | f.infinity()
	case magnitude == 0:
		return sign
	}
	_, power := math.Frexp(magnitude)
	exponent := max(power-1+f.bias(), 1)
	// In units of the last place; a carry out of the mantissa goes into the exponent by itself.
	units := math.RoundToEven(math.Ldexp(magnitude, f.bias()+f.mantissaBits-exponent))
	bits := uint32(exponent-1)<<f.mantissaBits + uint32(units)
	return sign | min(bits, f.infinity())
}
