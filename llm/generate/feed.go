package generate

import "sync"

// An event is a token of a text, or its end.
type event struct {
	token  Token
	err    error
	end    bool
	stats  Stats // so far
	cached int
}

// A feed hands the events of a text from the goroutine that computes to the one that asked. Neither waits for the other:
// events are kept, at most one for each token of the context.
type feed struct {
	ready  chan struct{} // has room for one
	mu     sync.Mutex
	events []event
}

func (f *feed) push(e event) {
	f.mu.Lock()
	f.events = append(f.events, e)
	f.mu.Unlock()
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// each calls take with each event up to the end, or until it returns false.
func (f *feed) each(take func(event) bool) {
	for range f.ready {
		f.mu.Lock()
		events := f.events
		f.events = nil
		f.mu.Unlock()
		for _, e := range events {
			if !take(e) || e.end {
				return
			}
		}
	}
}
