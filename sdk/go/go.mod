module farandole.dev/go

go 1.22
