// Grow raises the replicas of workloads, and makes the pods that the growth stands for, as controllers would: at a steady
// pace, or as fast as it is answered.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"extauthz.dev/bench/peers/driving"
)

type workload struct {
	Scale string `json:"scale"`
	Pods  string `json:"pods"`
	Pod   string `json:"pod"`
}

type client struct {
	http   *http.Client
	token  string
	failed *atomic.Int64
}

func main() {
	scale := flag.String("scale", "", "URL before the paths of scales")
	api := flag.String("api", "", "URL before the paths of pods")
	ca := flag.String("ca", "", "PEM of the authority of both")
	token := flag.String("token", "", "bearer token")
	file := flag.String("workloads", "", "JSON list of workloads")
	clients := flag.Int("clients", 1, "how many at a time, each with a connection of its own")
	pods := flag.Int("pods", 1, "how many a write makes room for")
	start := flag.Int64("start", 1, "the highest count so far")
	seconds := flag.Float64("seconds", 1, "for how long")
	rate := flag.Float64("rate", 0, "writes a second of all clients together; 0: as fast as they are answered")
	flag.Parse()
	workloads := driving.Read[workload](*file)
	config := driving.Trust(*ca)
	last, failed := atomic.Int64{}, atomic.Int64{}
	var every time.Duration
	if *rate > 0 {
		every = time.Duration(float64(*clients) / *rate * float64(time.Second))
	}
	grown, scaled := make([][]float64, *clients), make([][]float64, *clients)
	begin := time.Now()
	end := begin.Add(time.Duration(*seconds * float64(time.Second)))
	var all sync.WaitGroup
	for number := range *clients {
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
		one := client{&http.Client{Transport: transport}, *token, &failed}
		all.Go(func() {
			next := begin.Add(every * time.Duration(number) / time.Duration(*clients))
			for turn := 0; ; turn++ {
				time.Sleep(time.Until(next))
				if !time.Now().Before(end) {
					return
				}
				next = next.Add(every)
				// Nobody else writes to these, so that every write grows its workload.
				mine := (len(workloads) - number + *clients - 1) / *clients
				to := workloads[number+*clients*(turn%mine)]
				count := *start + int64(*pods*(1+turn/mine))
				asked := time.Now()
				one.scale(*scale+to.Scale, count)
				raise(&last, count)
				scaled[number] = append(scaled[number], time.Since(asked).Seconds())
				for range *pods {
					if to.Pod != "" {
						one.send("POST", *api+to.Pods, "application/json", to.Pod)
					}
				}
				grown[number] = append(grown[number], time.Since(asked).Seconds())
			}
		})
	}
	all.Wait()
	driving.Tell(map[string]any{
		"seconds": time.Since(begin).Seconds(), "grown": driving.Flat(grown), "scaled": driving.Flat(scaled),
		"failed": failed.Load(), "last": last.Load(),
	})
}

// raise keeps the highest of all counts.
func raise(last *atomic.Int64, count int64) {
	for {
		was := last.Load()
		if count <= was || last.CompareAndSwap(was, count) {
			return
		}
	}
}

func (c client) scale(url string, count int64) {
	body := fmt.Sprintf(`[{"op":"add","path":"/spec/replicas","value":%d}]`, count)
	c.send("PATCH", url, "application/json-patch+json", body)
}

func (c client) send(method, url, contentType, body string) {
	request, err := http.NewRequest(method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("content-type", contentType)
	request.Header.Set("authorization", "Bearer "+c.token)
	answer, err := c.http.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode >= 300 && c.failed.Add(1) == 1 {
		fmt.Fprintf(os.Stderr, "%s %s: %d %s\n", method, url, answer.StatusCode, text)
	}
}
