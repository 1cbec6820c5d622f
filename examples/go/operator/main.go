// Command operator waits for a job to end, and prints a line whenever what blocks it changes.
//
//	FARANDOLE_COORDINATOR=HOST:PORT FARANDOLE_TOKEN_FILE=FILE operator JOB
//
// It waits for the job to come as well. Exit codes: 0 the job has finished, 1 it has failed, 2 it could not be watched.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"farandole.dev/go/client"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "operator: name one job")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ended, err := watch(ctx, os.Args[1])
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(2)
	case ended.State != client.Finished:
		os.Exit(1)
	}
}

// watch prints until the job has ended, and gives it as it was then.
func watch(ctx context.Context, name string) (client.Details, error) {
	options, err := client.FromEnvironment()
	if err != nil {
		return client.Details{}, err
	}
	coordinator, err := client.New(options)
	if err != nil {
		return client.Details{}, err
	}
	defer coordinator.Close()
	last := ""
	for jobs := coordinator.Watch(client.JobID{Name: name}); ; {
		job, err := jobs.Next(ctx)
		line := fmt.Sprintf("job %s has not come yet", name)
		if err == nil {
			line = lineOf(job)
		} else if !errors.Is(err, client.ErrNotFound) {
			return client.Details{}, err
		}
		if line != last {
			fmt.Println(line)
		}
		last = line
		if err == nil && job.State.HasEnded() {
			return job, nil
		}
	}
}

func lineOf(job client.Details) string {
	if blocker := job.Blocker(); blocker != "" {
		return fmt.Sprintf("job %s is %s: %s", job.Name, job.State, blocker)
	}
	return fmt.Sprintf("job %s is %s: %s", job.Name, job.State, job.Reason)
}
