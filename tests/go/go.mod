module farandole.dev/tests

go 1.22

require farandole.dev/go v0.0.0

require gonum.org/v1/gonum v0.15.1

replace farandole.dev/go => ../../sdk/go
