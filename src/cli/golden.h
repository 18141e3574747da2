// What torch computed at every shape of a sweep: the directory that python/liveshape/golden.py writes.
//
//   LS_ASSIGN_OR_RETURN(Golden golden, Golden::Load("golden"));
//   LS_RETURN_IF_ERROR(golden.ArrangeInputs(*artifact));
//   for (const GoldenPoint& point : golden.points)       // states are reset before each point
//     for (const GoldenStep& step : point.steps) session->Run(step.inputs);
#pragma once

#include <string>
#include <vector>

#include "cli/npy.h"
#include "cli/sweep.h"

namespace liveshape::cli {

struct GoldenTensor {
  std::string name;
  NpyFile file;
};

struct GoldenStep {
  Point shape;
  std::vector<GoldenTensor> given, outputs;
  std::vector<TensorRef> inputs;  // `given` in the artifact's order, after ArrangeInputs
};

struct GoldenPoint {
  Point shape;
  std::vector<GoldenStep> steps;
  // What "large" and "small" mean: the largest step's product of values, each plus 1 so that a position 0
  // does not hide the others.
  double Volume() const;
};

struct Golden {
  std::string model;
  double tolerance = 1e-5;
  std::vector<GoldenPoint> points;

  static Result<Golden> Load(const std::string& directory);
  // Also checks that each step has the artifact's number of outputs.
  Status ArrangeInputs(const Artifact& artifact);
};

}  // namespace liveshape::cli
