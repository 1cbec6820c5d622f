module farandole.dev/examples

go 1.22

require farandole.dev/go v0.0.0

replace farandole.dev/go => ../../sdk/go
