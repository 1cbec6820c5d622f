package farandole

import "unsafe"

// Number is the type of a tensor's elements. int travels as int64. bool has the reductions Sum and Max ("or"), Product
// and Min ("and").
type Number interface {
	uint8 | int8 | uint16 | int16 | int32 | int64 | int | float32 | float64 | bool |
		Float16 | BFloat16 | Float8E4M3 | Float8E5M2
}

// The numbers of element types in the C interface.
const (
	dtypeU8 = iota
	dtypeI8
	dtypeI16
	dtypeI32
	dtypeI64
	dtypeF16
	dtypeBF16
	dtypeF32
	dtypeF64
	dtypeBool
	dtypeU16
	dtypeF8E4M3
	dtypeF8E5M2
)

func dtypeOf[T Number]() int32 {
	switch any((*T)(nil)).(type) {
	case *float32:
		return dtypeF32
	case *float64:
		return dtypeF64
	case *uint8:
		return dtypeU8
	case *int8:
		return dtypeI8
	case *uint16:
		return dtypeU16
	case *int16:
		return dtypeI16
	case *int32:
		return dtypeI32
	case *bool:
		return dtypeBool
	case *Float16:
		return dtypeF16
	case *BFloat16:
		return dtypeBF16
	case *Float8E4M3:
		return dtypeF8E4M3
	case *Float8E5M2:
		return dtypeF8E5M2
	}
	// int64, and int, which has its size wherever the library exists.
	return dtypeI64
}

func sizeOf[T Number]() int {
	var element T
	return int(unsafe.Sizeof(element))
}

// address gives the first element's address; nil where there is none.
func address[T Number](data []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(data)) }
