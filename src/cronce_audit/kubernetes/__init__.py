"""Kubernetes: CronJobs, and schedulers in Deployments; plain manifests, Helm charts and kustomizations.

`templates` makes YAML of templates, `read` facts of YAML, `others` those of patches and values, which `seen`
puts together; the rules are in `cronjobs`, `runs` and `workloads`.
"""
