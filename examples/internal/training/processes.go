package training

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/internal/mpi"
	"github.com/goggml/ggml/llm/parallel"
	"github.com/goggml/ggml/llm/train"
)

// processes are the processes that a launcher such as mpirun started together; nil for a single one.
type processes struct {
	group   *parallel.World
	began   time.Time // of the steps
	reports *waitReports
}

// Group returns the processes that train together.
func (f *Flags) Group() *parallel.World { return f.processes.group }

// Join joins the processes that a launcher started. Only the first process writes files and shows progress; the
// others have no outputs.
func (f *Flags) Join(ctx context.Context, result *string) (context.Context, error) {
	f.processes.reports = &waitReports{}
	reporting, stopReporting := context.WithCancel(ctx)
	if l, _ := mpi.Launched(os.Getenv); l.Rank <= 0 {
		go cli.ReportWaits(reporting, f.processes.reports.print)
	}
	interrupted := ctx
	ctx, group, err := parallel.Join(ctx)
	context.AfterFunc(ctx, func() {
		stopReporting()
		if interrupted.Err() == nil && errors.Is(context.Cause(ctx), context.Canceled) && group.Writes() { // another process was interrupted
			cli.ReportInterrupted(os.Stderr)
		}
	})
	f.processes.group = group
	f.quiet = !group.Writes()
	if f.quiet {
		*result, f.CheckpointOut, f.CheckpointIn, f.Metrics, f.LossCurve = "", "", "", "", ""
	}
	return ctx, cli.Interrupted(ctx, err, "nothing was trained yet")
}

// Leave leaves the group at the end of the program, whose error is err. It returns the error that this process
// must report: an error of all processes is reported by the first.
func (f *Flags) Leave(err error) error {
	group := f.processes.group
	if group == nil {
		return err
	}
	if err == nil {
		return group.Close()
	}
	var shared *parallel.SharedError
	isShared := errors.As(err, &shared)
	isTold := isShared || errors.Is(err, train.ErrDiverged) || errors.Is(err, cli.ErrInterrupted) || errors.Is(err, context.Canceled)
	if isTold && !group.Writes() || isShared && shared.Elsewhere {
		if errors.Is(err, cli.ErrInterrupted) {
			_ = group.Close() // the first process ends when it has saved, and all others with it
		}
		time.Sleep(cli.ToldAfter)
	}
	switch {
	case group.Writes():
		return err
	case isTold:
		return cli.Silent(err)
	}
	return fmt.Errorf("%s: %w", group.Processes()[group.Rank()], err)
}

// Log returns the writer for progress reports.
func (f *DataFlags) Log() io.Writer {
	if f.quiet {
		return io.Discard
	}
	return os.Stderr
}

// Begin prepares a run in all processes of the launcher, chooses its devices, and reports both.
func (f *Flags) Begin(ctx context.Context, on *placement.DeviceFlags) (*placement.Choice, error) {
	if err := f.Prepare(f.Log()); err != nil {
		return nil, err
	}
	if err := f.share(ctx); err != nil {
		return nil, err
	}
	f.describeGroup(f.Log())
	devices, err := on.Choose(f.Group())
	if err != nil {
		return nil, err
	}
	devices.DescribeShares(f.Log(), f.Group())
	return devices, nil
}

// share gives all processes the seed and the date of the first one, which may come from its folder.
func (f *Flags) share(ctx context.Context) error {
	const separator = " "
	text, err := f.Group().Text(ctx, strings.Join([]string{strconv.FormatInt(f.Seed, 10), strconv.FormatBool(splitsByRow(f.CheckpointIn)), f.TemplateDate}, separator))
	if err != nil {
		return err
	}
	seed, text, _ := strings.Cut(text, separator)
	byRow, date, _ := strings.Cut(text, separator)
	if f.Seed, err = strconv.ParseInt(seed, 10, 64); err != nil {
		return err
	}
	f.TemplateDate, f.offsetSeed, f.splitByRow = date, f.RandomSeed(), byRow == "true"
	return nil
}

// ThreadCount returns --threads, or by default a number that suits the processes of the machine.
func (f *Flags) ThreadCount() int {
	if f.Threads == 0 && f.Group() != nil {
		return f.Group().Threads()
	}
	return f.Threads
}

// describeGroup prints which processes train together.
func (f *Flags) describeGroup(w io.Writer) {
	g := f.Group()
	if g == nil {
		return
	}
	var list []string
	for _, p := range g.Processes() {
		list = append(list, p.String())
	}
	const shown = 8
	if more := len(list) - shown; more > 0 {
		list = append(slices.Clip(list[:shown]), fmt.Sprintf("and %d more", more))
	}
	fmt.Fprintf(w, "%d processes, started by %s: %s\n", g.Size(), g.Library(), strings.Join(list, ", "))
	if idle := g.Idle(); idle > 0 && f.Threads == 0 {
		fmt.Fprintf(w, "idle on this machine: %s, because the launcher binds the processes to others; mpirun's option bind-to none gives them all\n", cli.Count(idle, "processor"))
	}
	if samples := f.Batch * f.GradAcc; samples < g.Size() {
		fmt.Fprintf(w, "warning: a step has only %s for %d processes, so some compute nothing: make --batch times --grad-acc at least %d, or mpirun's -np at most %d\n",
			cli.Count(samples, "sample"), g.Size(), g.Size(), samples)
	}
}

// traffic reports the group's communication over a number of steps, or "" without a group.
func (f *Flags) traffic(ctx context.Context, steps int) string {
	group := f.Group()
	bytes, waited := group.Traffic()
	if bytes == 0 || steps == 0 {
		return ""
	}
	text := fmt.Sprintf("gradients: %.3g MB per step; waiting for their sums took %s", float64(bytes)/float64(steps)/1e6, perStep(waited, steps, time.Since(f.processes.began)))
	all := make([]float64, group.Size())
	all[group.Rank()] = waited.Seconds() * 1e3 / float64(steps)
	if group.AllReduce(ctx, all) == nil {
		text += slowest(group.Processes(), all)
	}
	return text
}
