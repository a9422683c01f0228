/* FMI 3.0 over the compiled step of a machine: Co-Simulation, and Model Exchange where it has rates of change (HAS_RATES).
 * model_data.h, made for the machine, has its sizes, its constants and its start. Memory is taken when an instance or a
 * saved state is made, never in a step.
 *
 * Value references: 0 time, then inputs, outputs, parameters, states, rates of the states, in the machine's order. The
 * first N_CONTINUOUS states are those that Model Exchange integrates; what is behind them is kept from one accepted step to
 * the next, and no importer sets it.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model_data.h"

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
enum { OK = 0, DISCARD = 2, ERROR = 3 };

typedef void (*log_message)(void *environment, int status, const char *category, const char *message);

typedef struct { /* everything that the next step depends on, and what can be asked for after it */
    double time;
    double inputs[N_INPUTS + 1];
    double outputs[N_OUTPUTS + 1];
    double params[N_PARAMS + 1];
    double state[N_STATES + 1];
} saved;

typedef struct {
    saved now;
    double used[N_INPUTS + 1]; /* the inputs of a step: what is not given is NaN, and the step puts its own there */
    double work[N_WORK + 1];
    void *environment;
    log_message log;
    int exchange;  /* Model Exchange: the importer integrates */
    int evaluated; /* outputs and rates are those of the present state, inputs and parameters */
    double rates[N_STATES + 1]; /* and behind those of continuous states what is kept if a step ends here */
} instance;

extern int32_t tandem_machine_step(void *state, void *inputs, const void *params, const void *ints, const void *floats,
                                   void *work, double h);
extern int32_t tandem_machine_rates(void *state, void *inputs, const void *params, const void *ints, const void *floats,
                                    void *work, double h);

extern int32_t tandem_machine_tangent(void *state, void *inputs, const void *params, const void *ints, const void *floats,
                                      void *work, double h);

static int fail(instance *it, const char *why) {
    if (it && it->log) it->log(it->environment, ERROR, "logStatusError", why);
    return ERROR;
}

static inline int64_t magnitude(const double *x) {
    int64_t bits;
    memcpy(&bits, x, sizeof bits);
    return bits & INT64_MAX;
}

static int step(instance *it) {
#if HAS_OPTIONAL /* the last step has put its own there */
    for (int k = 0; k < N_INPUTS; k++) it->used[k] = it->now.inputs[k];
#endif
    int32_t status = tandem_machine_step(it->now.state, it->used, it->now.params, model_ints, model_floats.number,
                                         it->work, STEP_SIZE);
    if (status != 0 && status != -2) return fail(it, "the step failed");
    /* to the end, one by one, as integers: a way out in between, or two of them in one load, wait for what was just
     * stored. Without their sign the bits of numbers have the numbers' order, infinities and NaN at its end. */
    static const union { double number; int64_t bits; } most = {BOUND};
    int64_t beyond = 0, outside = 0;
#pragma GCC unroll 8
    for (int k = 0; k < N_STATES; k++) beyond |= most.bits - magnitude(it->now.state + k);
#pragma GCC unroll 8
    for (int k = 0; k < N_OUTPUTS; k++) outside |= most.bits - magnitude(it->work + k);
    if (__builtin_expect((beyond | outside) < 0, 0))
        return fail(it, beyond < 0 ? "the model diverged: a state left its bounds"
                                   : "the model diverged: an output left its bounds");
    return OK;
}

/* Model Exchange: outputs and rates as they are now. */
static int evaluate(instance *it) {
#if HAS_RATES
    if (it->evaluated) return OK;
    for (int k = 0; k < N_INPUTS; k++) it->used[k] = it->now.inputs[k];
    int32_t status = tandem_machine_rates(it->now.state, it->used, it->now.params, model_ints, model_floats.number,
                                          it->work, it->now.time);
    if (status != 0 && status != -2) return fail(it, "the rates cannot be computed");
    for (int k = 0; k < N_CONTINUOUS; k++)
        if (!isfinite(it->work[N_OUTPUTS + k]))
            return fail(it, "there are no rates here: a smaller step may keep away from this state"), DISCARD;
    for (int k = 0; k < N_OUTPUTS; k++) it->now.outputs[k] = it->work[k];
    for (int k = 0; k < N_STATES; k++) it->rates[k] = it->work[N_OUTPUTS + k];
    it->evaluated = 1;
#endif
    return it ? OK : ERROR;
}

static void restart(instance *it) {
    it->evaluated = 0;
    memset(it->work, 0, sizeof it->work);
    it->now.time = 0.0;
    memcpy(it->now.inputs, model_inputs.number, N_INPUTS * sizeof(double));
    memcpy(it->now.outputs, model_outputs.number, N_OUTPUTS * sizeof(double));
    memcpy(it->now.params, model_params.number, N_PARAMS * sizeof(double));
    memcpy(it->now.state, model_state.number, N_STATES * sizeof(double));
}

/* ---- instances ---------------------------------------------------------------------------------------------------- */

EXPORT const char *fmi3GetVersion(void) { return "3.0"; }

static void *made(const char *token, void *environment, log_message log, int exchange) {
    if (!token || strcmp(token, TOKEN)) {
        if (log) log(environment, ERROR, "logStatusError", "of another FMU: instantiationToken");
        return NULL;
    }
#if N_CODE /* the same words whoever writes them */
    for (int k = 0; k < N_CODE; k++) model_floats.bits[model_code_at[k]] = (uint64_t)model_code[k];
#endif
    instance *it = (instance *)calloc(1, sizeof *it);
    if (!it) return NULL;
    it->environment = environment;
    it->log = log;
    it->exchange = exchange;
    restart(it);
    return it;
}

EXPORT void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources, _Bool visible,
                                         _Bool logging, _Bool events, _Bool early, const uint32_t *intermediate,
                                         size_t count, void *environment, log_message log, void *update) {
    (void)name, (void)resources, (void)visible, (void)logging, (void)early, (void)intermediate, (void)count, (void)update;
    if (events && log) log(environment, ERROR, "logStatusError", "this FMU has no event mode");
    return events ? NULL : made(token, environment, log, 0);
}

EXPORT void *fmi3InstantiateModelExchange(const char *name, const char *token, const char *resources, _Bool visible,
                                          _Bool logging, void *environment, log_message log) {
    (void)name, (void)resources, (void)visible, (void)logging;
    if (!HAS_RATES && log) log(environment, ERROR, "logStatusError", "this FMU is for Co-Simulation alone");
    return HAS_RATES ? made(token, environment, log, 1) : NULL;
}

EXPORT void *fmi3InstantiateScheduledExecution(void) { return NULL; }
EXPORT void fmi3FreeInstance(void *it) { free(it); }

EXPORT int fmi3EnterInitializationMode(instance *it, _Bool tolerant, double tolerance, double start, _Bool ends, double stop) {
    (void)tolerant, (void)tolerance, (void)ends, (void)stop;
    it->now.time = start;
#if TIME_AT >= 0
    it->now.state[TIME_AT] = start;
#endif
    return OK;
}

EXPORT int fmi3ExitInitializationMode(instance *it) { return (void)it, OK; }
EXPORT int fmi3Terminate(instance *it) { return (void)it, OK; }
EXPORT int fmi3SetDebugLogging(instance *it, _Bool on, size_t n, const char *const *categories) {
    return (void)it, (void)on, (void)n, (void)categories, OK;
}

EXPORT int fmi3Reset(instance *it) {
    restart(it);
    return OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------- */

EXPORT int fmi3GetFloat64(instance *it, const uint32_t *references, size_t n, double *values, size_t count) {
    if (n != count) return fail(it, "as many values as references are expected");
    int status = it->exchange ? evaluate(it) : OK;
    if (status != OK) return status;
    for (size_t k = 0; k < n; k++) {
        size_t r = references[k];
        if (r == 0) values[k] = it->now.time;
        else if ((r -= 1) < N_INPUTS) values[k] = it->now.inputs[r];
        else if ((r -= N_INPUTS) < N_OUTPUTS) values[k] = it->now.outputs[r];
        else if ((r -= N_OUTPUTS) < N_LIVE) values[k] = it->now.params[model_live[r]];
        else if ((r -= N_LIVE) < N_STATES) values[k] = it->now.state[r];
        else if (HAS_RATES && it->exchange && (r -= N_STATES) < N_CONTINUOUS) values[k] = it->rates[r];
        else return fail(it, "no variable has this value reference");
    }
    return OK;
}

EXPORT int fmi3SetFloat64(instance *it, const uint32_t *references, size_t n, const double *values, size_t count) {
    if (n != count) return fail(it, "as many values as references are expected");
    it->evaluated = 0;
    for (size_t k = 0; k < n; k++) {
        size_t r = (size_t)references[k] - 1; /* time wraps around to a number that none of them has */
        if (r < N_INPUTS) it->now.inputs[r] = values[k];
        else if (r < N_INPUTS + N_OUTPUTS) return fail(it, "only inputs and parameters can be set");
        else if ((r -= N_INPUTS + N_OUTPUTS) < N_LIVE) {
            if (!(values[k] >= model_low.number[r] && values[k] <= model_high.number[r]))
                return fail(it, "a parameter is outside its min and max");
            it->now.params[model_live[r]] = values[k];
        } else if (it->exchange && (r -= N_LIVE) < N_CONTINUOUS) it->now.state[r] = values[k];
        else return fail(it, "only inputs and parameters can be set");
    }
    return OK;
}

/* ---- steps -------------------------------------------------------------------------------------------------------- */

EXPORT int fmi3EnterStepMode(instance *it) { return (void)it, OK; }

EXPORT int fmi3DoStep(instance *it, double time, double size, _Bool no_way_back, _Bool *event, _Bool *terminate,
                      _Bool *early, double *reached) {
    (void)no_way_back;
    if (it->exchange) return fail(it, "Model Exchange makes no steps");
    double steps = rint(size / STEP_SIZE);
    *event = *terminate = *early = 0;
    *reached = time;
    if (!(steps >= 1.0 && fabs(size - steps * STEP_SIZE) <= 1e-6 * STEP_SIZE))
        return fail(it, "communicationStepSize must be a multiple of fixedInternalStepSize");
    for (int k = 0; k < N_INPUTS; k++) it->used[k] = it->now.inputs[k];
    uint64_t count = steps < 9e18 ? (uint64_t)steps : UINT64_MAX;
    for (uint64_t k = 0; k < count; k++) {
        int status = step(it);
        if (__builtin_expect(status != OK, 0)) {
            *reached = time + (double)k * STEP_SIZE;
            return status;
        }
    }
    for (int k = 0; k < N_OUTPUTS; k++) it->now.outputs[k] = it->work[k];
    it->now.time = *reached = time + size;
    return OK;
}

/* ---- states that are saved ------------------------------------------------------------------------------------------ */

EXPORT int fmi3GetFMUState(instance *it, saved **state) {
    if (!*state && !(*state = (saved *)malloc(sizeof **state))) return fail(it, "no memory for a state");
    **state = it->now;
    return OK;
}

EXPORT int fmi3SetFMUState(instance *it, const saved *state) {
    it->now = *state;
    it->evaluated = 0;
    memset(it->work, 0, sizeof it->work); /* a step goes on from zeros just the same */
    return OK;
}

EXPORT int fmi3FreeFMUState(instance *it, saved **state) {
    (void)it;
    free(*state);
    *state = NULL;
    return OK;
}

EXPORT int fmi3SerializedFMUStateSize(instance *it, const saved *state, size_t *size) {
    (void)it, (void)state;
    *size = sizeof *state;
    return OK;
}

EXPORT int fmi3SerializeFMUState(instance *it, const saved *state, uint8_t *bytes, size_t size) {
    if (size != sizeof *state) return fail(it, "a serialised state has another size");
    memcpy(bytes, state, size);
    return OK;
}

EXPORT int fmi3DeserializeFMUState(instance *it, const uint8_t *bytes, size_t size, saved **state) {
    if (size != sizeof **state) return fail(it, "a serialised state has another size");
    if (!*state && !(*state = (saved *)malloc(sizeof **state))) return fail(it, "no memory for a state");
    memcpy(*state, bytes, size);
    return OK;
}

/* ---- Model Exchange: the importer integrates ------------------------------------------------------------------------ */

EXPORT int fmi3EnterEventMode(instance *it) { return it->exchange ? OK : fail(it, "this FMU has no event mode"); }
EXPORT int fmi3EnterContinuousTimeMode(instance *it) { return it->exchange ? OK : fail(it, "Co-Simulation makes steps"); }
EXPORT int fmi3EvaluateDiscreteStates(instance *it) { return (void)it, OK; }

EXPORT int fmi3UpdateDiscreteStates(instance *it, _Bool *again, _Bool *terminate, _Bool *nominals, _Bool *values,
                                    _Bool *defined, double *next) {
    (void)it;
    *again = *terminate = *nominals = *values = *defined = 0;
    *next = 0.0;
    return OK;
}

EXPORT int fmi3CompletedIntegratorStep(instance *it, _Bool no_way_back, _Bool *event, _Bool *terminate) {
    (void)no_way_back;
    *event = *terminate = 0;
    for (int k = 0; k < N_STATES; k++)
        if (!(fabs(it->now.state[k]) <= BOUND)) return fail(it, "the model diverged: a state left its bounds");
#if N_CONTINUOUS < N_STATES
    int status = evaluate(it);
    if (status != OK) return status;
    for (int k = N_CONTINUOUS; k < N_STATES; k++) it->now.state[k] = it->rates[k];
#endif
    return OK;
}

EXPORT int fmi3SetTime(instance *it, double time) {
    it->evaluated &= TIME_AT < 0; /* else rates depend on it */
    it->now.time = time;
    return OK;
}

EXPORT int fmi3SetContinuousStates(instance *it, const double *states, size_t n) {
    if (!it->exchange || n != N_CONTINUOUS) return fail(it, "another number of continuous states");
    it->evaluated = 0;
    memcpy(it->now.state, states, n * sizeof(double));
    return OK;
}

EXPORT int fmi3GetContinuousStates(instance *it, double *states, size_t n) {
    if (!it->exchange || n != N_CONTINUOUS) return fail(it, "another number of continuous states");
    memcpy(states, it->now.state, n * sizeof(double));
    return OK;
}

EXPORT int fmi3GetContinuousStateDerivatives(instance *it, double *rates, size_t n) {
    if (!it->exchange || n != N_CONTINUOUS) return fail(it, "another number of continuous states");
    int status = evaluate(it);
    if (status != OK) return status;
    memcpy(rates, it->rates, n * sizeof(double));
    return OK;
}

EXPORT int fmi3GetNominalsOfContinuousStates(instance *it, double *nominals, size_t n) {
    if (!it->exchange || n != N_CONTINUOUS) return fail(it, "another number of continuous states");
    for (size_t k = 0; k < n; k++) nominals[k] = 1.0;
    return OK;
}

EXPORT int fmi3GetNumberOfContinuousStates(instance *it, size_t *n) { return *n = it->exchange ? N_CONTINUOUS : 0, OK; }
EXPORT int fmi3GetNumberOfEventIndicators(instance *it, size_t *n) { return (void)it, *n = 0, OK; }
EXPORT int fmi3GetEventIndicators(instance *it, double *values, size_t n) {
    return (void)values, n ? fail(it, "there are no event indicators") : OK;
}

/* The tangent has a row for every output and every rate, a column for every state and every input. */
EXPORT int fmi3GetDirectionalDerivative(instance *it, const uint32_t *unknowns, size_t n, const uint32_t *knowns, size_t m,
                                        const double *seed, size_t seeds, double *sensitivity, size_t count) {
#if HAS_TANGENT
    if (!it->exchange || seeds != m || count != n) return fail(it, "Model Exchange has derivatives, one for each unknown");
    for (int k = 0; k < N_INPUTS; k++) it->used[k] = it->now.inputs[k];
    int32_t status = tandem_machine_tangent(it->now.state, it->used, it->now.params, model_ints, model_floats.number,
                                            it->work, it->now.time);
    if (status != 0 && status != -2) return fail(it, "the derivatives cannot be computed");
    it->evaluated = 0; /* its work has been written over */
    for (size_t i = 0; i < n; i++) {
        size_t row = (size_t)unknowns[i] - 1 - N_INPUTS;
        if (row >= N_OUTPUTS) row -= N_LIVE + N_STATES; /* a rate: behind parameters and states */
        if (row >= N_OUTPUTS + N_CONTINUOUS || (size_t)unknowns[i] < 1 + N_INPUTS)
            return fail(it, "only outputs and rates have derivatives");
        sensitivity[i] = 0.0;
        for (size_t j = 0; j < m; j++) {
            size_t r = (size_t)knowns[j] - 1, column = N_CONTINUOUS + r;
            if (r >= N_INPUTS && (column = r - N_INPUTS - N_OUTPUTS - N_LIVE) >= N_CONTINUOUS)
                return fail(it, "derivatives are by states and inputs");
            sensitivity[i] += it->work[row * (N_CONTINUOUS + N_INPUTS) + column] * seed[j];
        }
        if (!isfinite(sensitivity[i])) return fail(it, "there are no derivatives here"), DISCARD;
    }
    return OK;
#else
    (void)unknowns, (void)n, (void)knowns, (void)m, (void)seed, (void)seeds, (void)sensitivity, (void)count;
    return fail(it, "this FMU has no derivatives");
#endif
}

/* ---- what this FMU does not have: types without variables, adjoints, other kinds of simulation -------------------- */

#define NONE(name) \
    EXPORT int name(instance *it, const uint32_t *references, size_t n) { \
        return (void)references, n ? fail(it, "no variable of this type") : OK; \
    }
NONE(fmi3GetFloat32) NONE(fmi3GetInt8) NONE(fmi3GetUInt8) NONE(fmi3GetInt16) NONE(fmi3GetUInt16) NONE(fmi3GetInt32)
NONE(fmi3GetUInt32) NONE(fmi3GetInt64) NONE(fmi3GetUInt64) NONE(fmi3GetBoolean) NONE(fmi3GetString) NONE(fmi3GetBinary)
NONE(fmi3GetClock) NONE(fmi3SetFloat32) NONE(fmi3SetInt8) NONE(fmi3SetUInt8) NONE(fmi3SetInt16) NONE(fmi3SetUInt16)
NONE(fmi3SetInt32) NONE(fmi3SetUInt32) NONE(fmi3SetInt64) NONE(fmi3SetUInt64) NONE(fmi3SetBoolean) NONE(fmi3SetString)
NONE(fmi3SetBinary) NONE(fmi3SetClock) NONE(fmi3GetIntervalDecimal) NONE(fmi3GetIntervalFraction)
NONE(fmi3GetShiftDecimal) NONE(fmi3GetShiftFraction) NONE(fmi3SetIntervalDecimal) NONE(fmi3SetIntervalFraction)
NONE(fmi3SetShiftDecimal) NONE(fmi3SetShiftFraction) NONE(fmi3GetOutputDerivatives)

#define UNSUPPORTED(name) \
    EXPORT int name(instance *it) { return fail(it, #name ": this FMU does not provide it"); }
UNSUPPORTED(fmi3GetNumberOfVariableDependencies) UNSUPPORTED(fmi3GetVariableDependencies)
UNSUPPORTED(fmi3GetAdjointDerivative) UNSUPPORTED(fmi3EnterConfigurationMode)
UNSUPPORTED(fmi3ExitConfigurationMode) UNSUPPORTED(fmi3ActivateModelPartition)
