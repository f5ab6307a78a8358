package main

import (
	"fmt"
	"time"
)

// A clock estimates how long the run takes. It starts from the time of each suite on two cores, and corrects it
// by the times of the suites so far.
type clock struct {
	quick            bool
	begun            time.Time
	number, of       int
	suite            suite
	suiteBegun       time.Time
	expected, actual time.Duration // of the finished suites
	later            time.Duration // expected time of the suites after this one
	now              func() time.Time
}

func newClock(quick bool, chosen []suite) *clock {
	c := &clock{quick: quick, begun: time.Now(), of: len(chosen), now: time.Now}
	for _, s := range chosen {
		c.later += c.expect(s)
	}
	return c
}

func (c *clock) expect(s suite) time.Duration {
	if c.quick {
		return s.quick
	}
	return s.full
}

func (c *clock) begin(s suite) {
	c.number++
	c.suite, c.suiteBegun = s, c.now()
	c.later -= c.expect(s)
}

func (c *clock) end(s suite) {
	c.expected += c.expect(s)
	c.actual += c.spent()
}

// spent returns the time since the suite began.
func (c *clock) spent() time.Duration { return c.now().Sub(c.suiteBegun) }

// left returns the remaining time.
func (c *clock) left() time.Duration {
	pace := 1.0
	if c.expected > 0 {
		pace = c.actual.Seconds() / c.expected.Seconds()
	}
	scaled := func(d time.Duration) time.Duration { return time.Duration(pace * float64(d)) }
	return scaled(c.later) + max(0, scaled(c.expect(c.suite))-c.spent())
}

// String returns text such as "bench: 2/5 scaling, 3m10s, about 12m0s to go".
func (c *clock) String() string {
	return fmt.Sprintf("bench: %d/%d %s, %v, about %v to go", c.number, c.of, c.suite.name,
		c.now().Sub(c.begun).Round(time.Second), c.left().Round(10*time.Second))
}
