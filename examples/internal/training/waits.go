package training

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goggml/ggml/internal/rpcrelay"
	"github.com/goggml/ggml/llm/parallel"
)

// watchServers prints for which servers of --rpc the run waits for long, until stop.
func watchServers(printf func(format string, args ...any)) (stop func()) {
	servers := rpcrelay.Waits()
	if len(servers) == 0 {
		return func() {}
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		every := servers[0].Stall / 2
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
			}
			for _, s := range rpcrelay.Waits() {
				if s.Current >= every {
					printf("waiting for RPC server %s: no answer for %v; an interrupt ends the run within %v", s.Endpoint, s.Current.Round(time.Second), s.Stall)
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

// serverWaits says how long steps have waited for each server, "" without one.
func serverWaits(before []rpcrelay.Wait, steps int, took time.Duration) string {
	var list []string
	for i, s := range rpcrelay.Waits() {
		if i < len(before) && steps > 0 {
			waited := s.Total - before[i].Total
			list = append(list, fmt.Sprintf("%s took %s", s.Endpoint, perStep(waited, steps, took)))
		}
	}
	if list == nil {
		return ""
	}
	return "servers: waiting for " + strings.Join(list, ", for ")
}

// perStep is a time of a step, and its share of the whole.
func perStep(waited time.Duration, steps int, took time.Duration) string {
	return fmt.Sprintf("%.1f ms a step, %.3g %% of the time", waited.Seconds()*1e3/float64(steps), 100*waited.Seconds()/took.Seconds())
}

// slowest names the process for which the others wait, with the milliseconds that each has waited in a step; "" if all
// wait about as long.
func slowest(processes []parallel.Process, waited []float64) string {
	least := slices.Min(waited)
	if least > slices.Max(waited)/2 {
		return ""
	}
	return fmt.Sprintf("; the others wait for %s, which waited %.1f ms", processes[slices.Index(waited, least)], least)
}
