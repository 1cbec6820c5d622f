package farandole

// VectorView gives the elements of a Gonum vector (mat.VecDense, or what else has RawVector) as the slice to give to an
// operation: the vector's own memory, nothing is copied. ErrMismatch: the vector is a column of a larger matrix, so its
// elements do not lie side by side.
//
// This module does not depend on Gonum: V stands for blas64.Vector or blas32.Vector.
func VectorView[T float32 | float64, V ~struct {
	N    int
	Data []T
	Inc  int
}](vector interface{ RawVector() V }) ([]T, error) {
	raw := struct {
		N    int
		Data []T
		Inc  int
	}(vector.RawVector())
	if raw.Inc != 1 && raw.N > 1 {
		return nil, mismatch("a vector of %d elements that lie %d apart in memory cannot travel as it is: copy it", raw.N, raw.Inc)
	}
	return raw.Data[:raw.N], nil
}

// MatrixView gives the elements of a Gonum matrix (mat.Dense, or what else has RawMatrix), row by row, as the slice to give
// to an operation, and its shape as the option to go with it: the matrix's own memory, nothing is copied. ErrMismatch: the
// matrix is a part of a wider one, so its rows do not lie side by side.
//
// This module does not depend on Gonum: M stands for blas64.General or blas32.General.
func MatrixView[T float32 | float64, M ~struct {
	Rows, Cols int
	Data       []T
	Stride     int
}](matrix interface{ RawMatrix() M }) ([]T, Option, error) {
	raw := struct {
		Rows, Cols int
		Data       []T
		Stride     int
	}(matrix.RawMatrix())
	if raw.Stride != raw.Cols && raw.Rows > 1 {
		return nil, Option{}, mismatch("a matrix of %d x %d elements whose rows begin %d apart in memory cannot travel as it is: copy it",
			raw.Rows, raw.Cols, raw.Stride)
	}
	return raw.Data[:raw.Rows*raw.Cols], Shape(raw.Rows, raw.Cols), nil
}
