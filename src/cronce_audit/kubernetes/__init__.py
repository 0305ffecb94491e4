"""Kubernetes: CronJobs, and schedulers in Deployments; plain manifests, Helm charts and kustomizations."""
