/* An FMU that is not ours, for tests: a lag with an integrator behind it. FMI is 2 or 3, STATEFUL whether its state can
 * be taken out. An input of more than 1000 is an error, of more than 2000 a fatal one, of more than 500 a warning, below
 * -500 it does not come to the end of its step. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { double u, gain, tau, x, sum, time; int64_t steps; } numbers;
#if FMI == 3
typedef void (*logger)(void *, int, const char *, const char *);
#define NAME(new, old) fmi3##new
#define COUNT , size_t count
typedef _Bool boolean;
#else
typedef void (*logger)(void *, const char *, int, const char *, const char *, ...);
#define NAME(new, old) fmi2##old
#define COUNT
typedef int boolean;
#endif
typedef struct { numbers now; logger log; } model;

static int failed(model *m, int status, const char *why) {
#if FMI == 3
    m->log(NULL, status, "error", why);
#else
    m->log(NULL, "it", status, "error", why);
#endif
    return status;
}

static model *made(const char *token, logger log) {
    model *m = calloc(1, sizeof *m);
    m->log = log;
    if (strcmp(token, TOKEN)) return failed(m, 3, "the token is another one"), free(m), NULL;
    m->now.gain = 2.0, m->now.tau = 0.1;
    return m;
}

#if FMI == 3
void *fmi3InstantiateCoSimulation(const char *n, const char *token, const char *r, _Bool v, _Bool l, _Bool e, _Bool y,
                                  const uint32_t *i, size_t c, void *environment, logger log, void *update) {
    return made(token, log);
}
int fmi3EnterInitializationMode(model *m, _Bool a, double b, double start, _Bool c, double d) {
    return m->now.tau > 0.0 ? (m->now.time = start, 0) : failed(m, 3, "tau must be positive");
}
#else
typedef struct { logger log; void *(*allocate)(size_t, size_t); void (*release)(void *); void *done, *environment; } callbacks;
void *fmi2Instantiate(const char *n, int kind, const char *token, const char *r, const callbacks *c, int v, int l) {
    c->release(c->allocate(1, 8));
    return kind == 1 ? made(token, c->log) : NULL;
}
int fmi2SetupExperiment(model *m, int a, double b, double start, int c, double d) { return m->now.time = start, 0; }
int fmi2EnterInitializationMode(model *m) { return m->now.tau > 0.0 ? 0 : failed(m, 3, "tau must be positive"); }
#endif
int NAME(ExitInitializationMode, ExitInitializationMode)(model *m) { return 0; }
int NAME(Reset, Reset)(model *m) {
    memset(&m->now, 0, sizeof m->now);
    m->now.gain = 2.0, m->now.tau = 0.1;
    return 0;
}

static double *place(model *m, uint32_t reference) {
    double *all[] = {&m->now.u, &m->now.gain, &m->now.tau, &m->now.x, &m->now.sum};
    return reference >= 4000000000u && reference < 4000000005u ? all[reference - 4000000000u] : NULL;
}
int NAME(GetFloat64, GetReal)(model *m, const uint32_t *references, size_t n, double *values COUNT) {
    for (size_t k = 0; k < n; k++) {
        if (!place(m, references[k])) return failed(m, 3, "no such variable");
        values[k] = *place(m, references[k]);
    }
    return 0;
}
int NAME(SetFloat64, SetReal)(model *m, const uint32_t *references, size_t n, const double *values COUNT) {
    for (size_t k = 0; k < n; k++) {
        if (!place(m, references[k])) return failed(m, 3, "no such variable");
        *place(m, references[k]) = values[k];
    }
    return 0;
}

static int advance(model *m, double time, double h) {
    numbers *s = &m->now;
    if (s->u > 2000.0) return failed(m, 4, "the input is far too large");
    if (s->u > 1000.0) return failed(m, 3, "the input is too large");
    if (time - s->time > 1e-9 || s->time - time > 1e-9) return failed(m, 3, "another time");
    s->x += h * (s->gain * s->u - s->x) / s->tau;
    s->sum += h * s->x;
    s->time += h;
    s->steps++;
    return s->u > 500.0;
}
#if FMI == 3
int fmi3DoStep(model *m, double time, double h, _Bool no_back, _Bool *event, _Bool *terminate, _Bool *early, double *reached) {
    int status = advance(m, time, h);
    *event = *terminate = 0, *early = m->now.u < -500.0, *reached = m->now.time;
    return status;
}
#else
int fmi2DoStep(model *m, double time, double h, int no_back) { return m->now.u < -500.0 ? 2 : advance(m, time, h); }
#endif

#ifdef STATEFUL
int NAME(GetFMUState, GetFMUstate)(model *m, numbers **state) {
    if (!*state) *state = malloc(sizeof **state);
    return **state = m->now, 0;
}
int NAME(SetFMUState, SetFMUstate)(model *m, const numbers *state) { return m->now = *state, 0; }
int NAME(FreeFMUState, FreeFMUstate)(model *m, numbers **state) { return free(*state), *state = NULL, 0; }
int NAME(SerializedFMUStateSize, SerializedFMUstateSize)(model *m, const numbers *state, size_t *size) {
    return *size = sizeof *state, 0;
}
int NAME(SerializeFMUState, SerializeFMUstate)(model *m, const numbers *state, uint8_t *bytes, size_t size) {
    return memcpy(bytes, state, size), 0;
}
int NAME(DeserializeFMUState, DeSerializeFMUstate)(model *m, const uint8_t *bytes, size_t size, numbers **state) {
    if (!*state) *state = malloc(sizeof **state);
    return memcpy(*state, bytes, size), 0;
}
#endif
