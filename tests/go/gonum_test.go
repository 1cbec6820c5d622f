package tests

import (
	"farandole.dev/go/farandole"
	"gonum.org/v1/gonum/mat"
)

var gonumChecks = []check{
	{"gonum's vectors and matrices are reduced where they lie", func(r *rank) {
		sum, size := farandole.Reduce(farandole.Sum), float64(r.job.Size())
		matrix := mat.NewDense(2, 3, []float64{1, 2, 3, 4, 5, 6})
		data, shape, err := farandole.MatrixView(matrix)
		r.require(err)
		r.require(farandole.AllreduceInPlace(r.ctx, r.job, data, shape, sum, farandole.Name("matrix")))
		requireThat(matrix.At(1, 0) == 4*size && matrix.At(0, 2) == 3*size, "the sum is %v", mat.Formatted(matrix))
		vector := mat.NewVecDense(3, []float64{1, 2, 3})
		elements, err := farandole.VectorView(vector)
		r.require(err)
		r.require(farandole.AllreduceInPlace(r.ctx, r.job, elements, sum, farandole.Name("vector")))
		requireThat(vector.AtVec(2) == 3*size, "the sum is %v", mat.Formatted(vector))
	}},
	{"parts of gonum's matrices are refused, and rows of them travel", func(r *rank) {
		matrix := mat.NewDense(3, 3, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9})
		_, _, err := farandole.MatrixView(matrix.Slice(0, 2, 0, 2).(*mat.Dense))
		requireError(err, farandole.ErrMismatch, "2 x 2 elements whose rows begin 3 apart")
		_, err = farandole.VectorView(matrix.ColView(0).(*mat.VecDense))
		requireError(err, farandole.ErrMismatch, "3 elements that lie 3 apart")
		row, err := farandole.VectorView(matrix.RowView(1).(*mat.VecDense))
		r.require(err)
		requireEqual(row, []float64{4, 5, 6}, "the row")
		rows, _, err := farandole.MatrixView(matrix.Slice(1, 3, 0, 3).(*mat.Dense))
		r.require(err)
		requireEqual(rows, []float64{4, 5, 6, 7, 8, 9}, "the last rows")
	}},
}
